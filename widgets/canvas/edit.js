// A kernel's source under a reader's hands: edited in place, tried in a process of its own, kept with the state.
import { h, put, plural } from "./dom.js";

const LINE = 20; // pixels, as house.css has it
const POLL_MS = 150, PAUSE_MS = 400; // between two looks at a trial; after the last key before a text is kept

/** The editor of a kernel. `ctx`: host, say(text), closed(): it was left. */
export function editView(ctx) {
  const text = h("textarea", { class: "mono", spellcheck: "false", wrap: "off", autocapitalize: "off", autocomplete: "off", oninput: typed, onkeydown: keys, onscroll: () => { numbers.scrollTop = text.scrollTop; } });
  const numbers = h("pre", { class: "nums", "aria-hidden": "true" });
  const note = h("div", { class: "note", role: "status", "aria-live": "polite" }), conflict = h("div", { class: "note bad", role: "alert" }), acts = h("div", { class: "acts" });
  const box = h("div", { class: "edit", role: "group" }, acts, conflict, note, h("div", { class: "source" }, numbers, text));
  let call = -1, state = null, job = 0, timer = 0, unkept = false;

  /** The text of a call as it was kept; false where it cannot be edited. */
  async function load(next) {
    if (next === call && unkept) await keep();
    call = next;
    const { data } = await ctx.host.ask("edit", { call });
    if (next === call) take(data, true);
  }
  /** What the kernel tells of the text; the text itself only where it is another kernel's, since more may have been typed. */
  function take(data, whole) {
    state = data;
    if (whole && text.value !== data.source) text.value = data.source;
    count();
    text.setAttribute("aria-label", `Source of ${data.kernel}, to edit`);
    box.setAttribute("aria-label", `Edit ${data.kernel}`);
    draw();
  }
  function draw() {
    const held = acts.contains(acts.getRootNode().activeElement) ? acts.getRootNode().activeElement.textContent : null;
    const button = (words, hint, act, off) => h("button", { class: "btn", type: "button", title: hint, disabled: off, onclick: act }, words);
    put(acts, button(job ? "Trying…" : "Try", "Compile it and run it in a process of its own, against ours (Ctrl + Enter)", attempt, job > 0),
      button("Back to ours", "Take the edit back; it can be had again", () => ask("drop_edit", { call }, true), job > 0 || !state.changed && !state.conflict),
      state.dropped && !state.changed ? button("Bring back", "The edit that was taken back", () => ask("drop_edit", { call, again: true }, true), job > 0) : null,
      button("Close", "Leave the editor; the edit is kept", leave),
      h("span", { class: "s" }, state.changed ? `${plural(state.changed, "line")} other than in ours` : "as ours"));
    conflict.textContent = state.conflict; conflict.hidden = !state.conflict;
    if (!job) { note.textContent = state.said?.text ?? ""; note.classList.toggle("bad", state.said?.bad ?? false); }
    if (held) [...acts.querySelectorAll("button")].find(b => b.textContent === held && !b.disabled)?.focus();
  }
  async function ask(kind, args, whole = false) {
    try { take((await ctx.host.ask(kind, args)).data, whole); } catch (error) { fail(error); }
  }
  const fail = error => { note.textContent = error.sentence ?? String(error); note.classList.add("bad"); };
  /** A number for each line; one more, so that the last can be scrolled to as far as the text's. */
  function count() {
    const lines = text.value.split("\n").length;
    if (numbers.textContent.split("\n").length !== lines + 1) numbers.textContent = Array.from({ length: lines }, (_, n) => n + 1).join("\n") + "\n";
    numbers.scrollTop = text.scrollTop;
  }
  /** Begin at the kernel itself: what stands before it is the same in all of them. */
  function begin() {
    const lines = text.value.split("\n"), found = lines.findIndex(line => /^def kernel\b/.test(line)), at = found < 0 ? lines.findIndex(line => line.startsWith("def ")) : found;
    const decorated = at > 0 && lines[at - 1].startsWith("@") ? at - 1 : Math.max(0, at), place = lines.slice(0, decorated).join("\n").length + (decorated ? 1 : 0);
    text.focus({ preventScroll: true });
    text.setSelectionRange(place, place);
    text.scrollTop = decorated * LINE;
    numbers.scrollTop = text.scrollTop;
  }
  function typed() { count(); unkept = true; clearTimeout(timer); timer = setTimeout(keep, PAUSE_MS); }
  async function keep() {
    clearTimeout(timer);
    if (!unkept) return;
    unkept = false;
    await ask("keep_edit", { call, source: text.value });
  }
  /** Run it beside: the page goes on, and what came of it is one sentence. */
  async function attempt() {
    if (job) return;
    await keep();
    try {
      const begun = call;
      ({ data: { job } } = await ctx.host.ask("try_edit", { call }));
      note.classList.remove("bad"); note.textContent = "Compiled and run in a process of its own…";
      draw();
      for (let now; !now?.over; await new Promise(done => setTimeout(done, now.over ? 0 : POLL_MS))) {
        ({ data: now } = await ctx.host.ask("job", { job }));
        if (now.over && now.error) throw now.error;
        if (now.over) ctx.say(now.data.text);
      }
      job = 0;
      if (begun === call) await ask("edit", { call });
    } catch (error) { job = 0; draw(); fail(error); }
  }
  async function leave() { await keep(); ctx.closed(); }
  function keys(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); event.stopPropagation(); attempt(); }
  }
  return { box, text, load, begin, attempt };
}
