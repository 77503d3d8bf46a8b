// The rail of stages, and the list of the pictures of one that opens beside it.
import { h, put, icon, plural } from "./dom.js";

/** What a stage is called, and the system that it is of. */
export const STAGES = {
  IMPORTED: ["Import", ""], TYPED: ["Types", "Relax"], DIFFERENTIATED: ["Gradients", "Training"], LEGALIZED: ["Lowering", "Relax"], TASKED: ["Control flow", "Grinder"],
  WELDED: ["Fusion", "Welder"], ROLLED: ["Tiling", "Roller"], RAMMED: ["Schedule", "Rammer"], PLANNED: ["Memory", ""], EMITTED: ["Code", ""],
};
const title = stage => STAGES[stage].filter(Boolean).join(" · ");

/** Fill the rail; `now` is the current stage, `pick(name, button)` makes another one current. */
export function drawStages(rail, cells, now, pick) {
  put(rail, cells.map(cell => {
    const [name, system] = STAGES[cell.stage], idle = !cell.ran || !cell.changes && !cell.decided;
    return h("button", {
      class: `stage${idle ? " same" : ""}${cell.ran ? "" : " out"}`, type: "button", "data-stage": cell.stage, tabindex: cell.stage === now ? 0 : -1,
      "aria-current": cell.stage === now ? "step" : null, title: `${cell.promise}\n${about(cell)}`, onclick: event => pick(cell.stage, event.currentTarget),
    }, name, system || !cell.ran ? h("small", {}, cell.failed ? "failed" : cell.ran ? system : "not run") : null, wrong(cell));
  }));
}

/** What a stage took and did, in words. */
function about(cell) {
  if (cell.failed || !cell.ran) return cell.failed ? "failed" : "not run";
  if (!cell.steps.length) return "as read";
  const did = cell.changes ? plural(cell.changes, "change") : cell.decided ? "decided" : "no change";
  return `${cell.seconds.toFixed(cell.seconds < 10 ? 3 : 1)} s${cell.kept ? ", from the cache" : ""} · ${did}${cell.checked === true ? " · checked" : ""}`;
}

const bad = cell => cell.checked !== null && cell.checked !== true;
const wrong = cell => bad(cell) || cell.failed ? h("span", { class: "ck bad", title: String(cell.checked || "the values differ from the program before") }, icon("cross", 14)) : null;

/** The list of pictures beside the rail. `groups`: of each stage on it its cell, its pictures, and those that every stage has; `go(picture)` shows one. */
export function pictureList(go) {
  const box = h("div", { class: "fly", hidden: true, role: "group", "aria-label": "Pictures" });
  const close = () => { box.hidden = true; };
  box.addEventListener("keydown", event => {
    const all = [...box.querySelectorAll("button")], at = all.indexOf(event.target.closest("button")), to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault(); event.stopPropagation();
    all[(to + all.length) % all.length].focus();
  });
  const item = now => picture => h("button", { type: "button", "data-picture": picture.name, "aria-current": String(picture.name === now), title: picture.words, onclick: () => { close(); go(picture.name); } }, picture.title);
  return {
    box, close,
    get stage() { return box.hidden ? "" : box.dataset.stage; },
    /** Open it for some stages: [cell, pictures, sentences about those that are not listed]. */
    show(groups, now, top) {
      box.dataset.stage = groups.length === 1 ? groups[0][0].stage : "all";
      put(box, groups.flatMap(([cell, pictures, missing]) => [
        h("h3", {}, title(cell.stage)), h("p", { class: "q" }, about(cell)), pictures.map(item(now)),
        missing.map(([name, when]) => h("p", { class: "q" }, `${name}: ${when}`))]).flat());
      box.hidden = false;
      box.style.top = `${Math.max(0, Math.min(top, box.parentNode.clientHeight - box.offsetHeight))}px`;
    },
  };
}
