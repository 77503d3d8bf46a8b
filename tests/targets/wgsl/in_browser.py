"""WebGPU programs in a headless Chromium on its software adapter, by the module of live pages."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from explorer.portable.webgpu import WebGpuProgram

LIVE = Path(__file__).parents[3] / "widgets" / "live"
ORIGIN = "http://localhost/"  # a secure context; no server is asked
ARGUMENTS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
)
RUN = """async ([program, weights, inputs]) => {
  const { meanGpuRun, openGpuProgram } = await import("/webgpu.js");
  const { callTimes, packWall } = await import("/stamped_wall.js");
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const text = array => btoa(Array.from(array, b => String.fromCharCode(b)).join(""));
  try {
    const runner = await openGpuProgram(program, bytes(weights));
    inputs.forEach((input, n) => runner.write(n, bytes(input)));
    await runner.run();
    const outputs = [];
    for (let n = 0; n < program.outputs.length; n++) outputs.push(text(await runner.read(n)));
    await runner.run(2);
    const wall = await runner.wall(), { adapter, features, lanes } = runner;
    const run = await meanGpuRun(runner, 0.05), packed = run && packWall(run.program, run.mean);
    const times = run && callTimes(run.program, run.mean);
    runner.close();
    return { outputs, wall, adapter, features, lanes, times, head: packed?.head };
  } catch (problem) { return { error: problem.sentence ?? String(problem.stack) }; }
}"""


def chromium() -> str | None:
    """The path of the system's Chromium."""
    names = ("chromium-headless-shell", "chromium", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@contextmanager
def gpu_page(browser: Any) -> Iterator[Any]:
    """A page that may import the modules of live pages, beside a browser of the same process."""
    own = browser.browser_type.launch(executable_path=chromium(), args=list(ARGUMENTS))
    try:
        page = own.new_page()
        page.route("**/*", _answer)
        page.goto(ORIGIN)
        yield page
    finally:
        own.close()


def _answer(route: Any) -> None:
    name = route.request.url.removeprefix(ORIGIN)
    path = LIVE / (name or "none")
    if path.is_file():
        route.fulfill(content_type="text/javascript", body=path.read_text(encoding="utf-8"))
    else:
        route.fulfill(content_type="text/html", body="<!doctype html><title>GPU</title>")


def run_in(page: Any, p: WebGpuProgram, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Run a program in a page: outputs by name, the measured wall, and the adapter."""
    encoded = [
        base64.b64encode(np.ascontiguousarray(inputs[t.name]).tobytes()).decode() for t in p.inputs
    ]
    weights = base64.b64encode(p.weights).decode()
    result = page.evaluate(RUN, [p.to_dict(), weights, encoded])
    if "error" in result:
        return dict(result)
    outputs = {}
    for t, text in zip(p.outputs, result["outputs"], strict=True):
        data = np.frombuffer(base64.b64decode(text), np.uint8)
        outputs[t.name] = data.view(np.dtype(t.dtype)).reshape(t.shape)
    return {**result, "outputs": outputs}
