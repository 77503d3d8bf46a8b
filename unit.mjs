
import { parentPort } from "node:worker_threads";
import { worker } from "./live.mjs";
const scope = { postMessage: data => parentPort.postMessage(data), onmessage: null };
worker.serve(scope);
parentPort.on("message", data => scope.onmessage({ data }));
