// A step that fails: the offer to look at the program before it, and the error over that program.
import { h, put } from "./dom.js";

const REFUSALS = ["BadOption", "Cancelled"]; // what may not be, or is not wanted, has no program to look at

/** A line under the knobs after a turn that failed. `look(args)` goes to what there is, `leave()` is told that nobody looks. */
export function failureOffer(look, leave) {
  const box = h("div", { class: "gone offer", hidden: true });
  const hide = () => { box.hidden = true; };
  return {
    box, hide,
    /** Whether an error of a turn leaves a program behind; it is then offered. */
    make(error, args) {
      if (!error.error || REFUSALS.includes(error.error)) return false;
      put(box, h("span", { role: "alert" }, `This cannot be compiled: ${error.sentence} `),
        h("button", { class: "btn", type: "button", onclick: () => { hide(); look(args); } }, "Look at the program before it"),
        h("button", { class: "btn", type: "button", onclick: () => { hide(); leave(); } }, "Leave it"));
      box.hidden = false;
      return true;
    },
  };
}

/** The error over the program before the step that raised it: its sentence and its parts. */
export function errorOver() {
  const box = h("div", { class: "over", role: "alert", hidden: true }), parts = ["where", "expected", "found", "try"];
  return {
    box,
    show(failed) {
      box.hidden = !failed;
      if (failed) put(box, h("b", {}, `Stopped at ${failed.step}: `), failed.sentence, parts.filter(name => failed[name]).map(name => h("div", { class: "q" }, `${name}: ${failed[name]}`)));
    },
  };
}
