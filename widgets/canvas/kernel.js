// The kernel of the selected operator: its lines in one language in a pane, or in all of them beside each other.
import { h, put, tabs } from "./dom.js";
import { codeView } from "./code.js";
import { lastOnly } from "./host.js";
import { LANGUAGES } from "./linked.js";
import { editView } from "./edit.js";

const COMMENTS = { mark: " ", number: 0, family: "", ops: [] };

/** The lines of an answer as a view of code shows them. */
function linesOf(data, ctx, language) {
  const opsOf = i => data.from ? data.ops[data.from[i] - 1] ?? [] : data.all, familyOf = ops => !data.from ? data.family : ops.length ? ctx.familyOf(ops) : "";
  return data.lines.map((text, i) => { const ops = opsOf(i); const line = data.from?.[i]; return { mark: " ", number: i + 1, at: i, k: line ? `line${line}${language === "numba" ? "" : " linked"}` : "none", text, family: familyOf(ops), ops }; });
}

/** The language that a text is coloured as: PTX, which stands in the place of LLVM IR, as assembly. */
const colours = (data, language) => data.lines[0]?.startsWith("//") ? "assembly" : language;

/** A view of the lines of one language. `ctx`: linked, opLit(op), selectedOp(), pick(ops), hover(ops). */
function languageView(ctx, language, label) {
  const { linked } = ctx, now = () => typeof language === "function" ? language() : language;
  const inSelection = line => { const found = linked.chosen && line.at !== undefined ? linked.linked(now()) : null; return found ? found.has(line.at) : ctx.selectedOp() >= 0 && line.ops.includes(ctx.selectedOp()); };
  return codeView({
    label, lit: inSelection, at: line => linked.own(now())?.has(line.at) ?? false, hover: ctx.hover,
    pick: (ops, line) => { if (line.at !== undefined) linked.choose(now(), [line.at]); if (ops.length && !ops.includes(ctx.selectedOp())) ctx.pick(ops); },
    step: by => linked.step(now(), by), help: word => linked.help(now(), word),
  });
}

/** The pane with the kernel. `ctx` also: state, remember(), callOf() of the selected operator, why() it has none, callLabel, callNames, narrow, counted(n). */
export function kernelPane(ctx) {
  const { linked, state } = ctx, view = languageView(ctx, () => state.language, "Generated source"), head = h("div", { class: "ph" });
  let number = 0;
  const load = lastOnly(async () => {
    const mine = ++number, call = ctx.callOf(), language = state.language;
    const pick = next => { state.language = next; ctx.remember(); load(); };
    const title = (name, more = "") => put(head, h("h2", {}, "Kernel"), ctx.narrow("s"), h("span", { class: "s cut", title: more || null }, name), h("span", { class: "sp" }), tabs(LANGUAGES, language, pick, "Language"));
    const note = words => { view.show([{ ...COMMENTS, text: words }], "program"); ctx.counted(0); };
    if (call < 0) { title(""); note(`# ${ctx.why()}`); return; }
    title(ctx.callLabel(call), ctx.callNames(call));
    const waiting = setTimeout(() => { if (mine === number) note("# reading…"); }, 200);
    try {
      const data = await linked.read(language);
      if (mine !== number) return;
      view.show(linesOf(data, ctx, language), colours(data, language));
      ctx.counted(view.light());
    } catch (error) { if (mine === number) note(`# ${error.sentence ?? error}`); }
    clearTimeout(waiting);
  });
  return { box: view.box, mini: view.mini, head, load, light: () => view.light(), draw: () => view.draw() };
}

/** The languages beside each other, as a picture, with an editor of the source. `ctx` as above, and host, say. */
export function kernelColumns(ctx) {
  const { linked } = ctx, shown = new Set(["numba", "assembly"]), note = h("span", { class: "note" });
  const columns = LANGUAGES.map(([language, title]) => {
    const view = languageView(ctx, language, title);
    return { language, title, view, head: h("b", {}, title), box: h("div", { class: "column" }) };
  });
  const editor = editView({ host: ctx.host, say: ctx.say, closed: () => { editing = false; load(); } }), pencil = h("button", { class: "btn", type: "button", title: "Change the source, and try it", onclick: () => { editing = true; shown.add("numba"); load(); } }, "Edit");
  let editing = false;
  for (const { head, view, box, language } of columns) box.append(h("div", { class: "ch" }, ...[head, language === "numba" && ctx.host.alive ? pencil : null].filter(Boolean)), view.box);
  const bar = h("div", { class: "rbar" }), inside = h("div", { class: "columns lights" }), box = h("div", { class: "linked" }, bar, inside);
  const flip = language => { if (!shown.delete(language)) shown.add(language); if (!shown.size) shown.add(language); load(); };
  let number = 0;
  const load = lastOnly(async () => {
    const mine = ++number, call = ctx.callOf();
    put(bar, h("span", { role: "group", "aria-label": "Languages", class: "tabs" }, columns.map(({ language, title }) => h("button", { class: "btn", type: "button", "data-language": language, "aria-pressed": String(shown.has(language)), onclick: () => flip(language) }, title))), note);
    put(inside, columns.filter(c => shown.has(c.language)).map(c => c.box));
    const tell = words => columns.forEach(c => c.view.show([{ ...COMMENTS, text: words }], "program"));
    note.textContent = "";
    await edit(call);
    if (call < 0) { tell(`# ${ctx.why()}`); return; }
    const waiting = setTimeout(() => { if (mine === number) tell("# compiling a copy to read…"); }, 200);
    for (const { language, title, view, head } of columns.filter(c => shown.has(c.language))) {
      try {
        const data = await linked.read(language);
        if (mine !== number) break;
        head.textContent = `${title}, ${data.lines.length.toLocaleString("en")} lines`;
        view.show(linesOf(data, ctx, language), colours(data, language));
        if (data.note) note.textContent = data.note;
      } catch (error) { if (mine === number) view.show([{ ...COMMENTS, text: `# ${error.sentence ?? error}` }], "program"); }
    }
    clearTimeout(waiting);
    light();
  });
  /** The source in its column, or the editor in its place; where it cannot be edited, its lines again. */
  async function edit(call) {
    const { view, box } = columns[0];
    if (editing && call >= 0) try { await editor.load(call); } catch (error) { editing = false; ctx.say(error.sentence ?? String(error)); }
    const own = editing && call >= 0;
    pencil.hidden = own || call < 0 || Boolean(ctx.host.get("no_edit"));
    if (!box.contains(own ? editor.box : view.box)) { box.lastChild.replaceWith(own ? editor.box : view.box); if (own) editor.begin(); else if (ctx.host.alive) pencil.focus({ preventScroll: true }); }
  }
  const light = () => columns.forEach(c => c.view.light());
  return { box, load, light, editor };
}
