// The stages in their order: name, seconds, new or kept, changes or only decisions, and whether the values were checked.
import { h, put, icon, plural } from "./dom.js";

/** Fill the strip; `now` is the current stage, `pick(name)` makes another one current. */
export function drawStages(strip, cells, now, pick) {
  const longest = Math.max(...cells.map(c => c.seconds), 1e-9);
  put(strip, cells.map(cell => {
    const same = cell.ran && !cell.changes && !cell.decided, kind = !cell.ran ? "out" : cell.kept ? "" : "new";
    const why = !cell.ran ? "not run" : cell.kept ? "from memory: nothing before it changed" : "run by the last change";
    return h("button", {
      class: `stage ${kind}${same ? " same" : ""}`, type: "button", "aria-current": cell.stage === now ? "step" : null, "data-stage": cell.stage, tabindex: cell.stage === now ? 0 : -1,
      title: `${cell.promise}\n${cell.ran && cell.steps.length ? `${cell.seconds.toFixed(3)} s, ` : ""}${why}${cell.decided && !cell.changes ? "\nno line of the program changed: what was decided is in its pictures" : ""}`, onclick: () => pick(cell.stage),
    }, h("span", { class: "n" }, cell.stage), badge(cell.checked), time(cell),
      h("span", { class: "c" }, !cell.ran ? "" : cell.changes ? plural(cell.changes, "change") : cell.decided ? "decided" : "no change"),
      h("span", { class: "t", style: `width:max(2px,${cell.seconds / longest * 100}%)` }));
  }));
}

function time(cell) {
  if (cell.failed || !cell.ran) return h("span", { class: "v" }, cell.failed ? "failed" : "not run");
  if (!cell.steps.length) return h("span", { class: "v" }, "as read");
  const seconds = cell.seconds < 10 ? cell.seconds.toFixed(3) : cell.seconds.toFixed(1);
  return h("span", { class: "v" }, `${seconds} s`, h("span", { class: "kp" }, cell.kept ? ", kept" : ", new"));
}

function badge(checked) {
  if (checked === null) return h("span", { class: "ck" });
  const good = checked === true;
  const said = good ? "equal to the program before, on random inputs" : String(checked || "differs");
  return h("span", { class: `ck${good ? "" : " bad"}`, title: said }, icon(good ? "check" : "cross", 14));
}
