// The code of the selected kernel in its languages: of the lines that are selected in one, those of the others that belong to them.
import { plural } from "./dom.js";

export const LANGUAGES = [["numba", "Numba"], ["llvm", "LLVM"], ["assembly", "Asm"]];
const CALLED = { numba: "source", llvm: "LLVM IR", assembly: "assembly" };

/** What is selected of a kernel's code. `changed()` is called when that is another. */
export function linkedLines(host, changed) {
  let call = -1, texts = {}, chosen = null, links = {};

  /** The lines of the source that belong to what is selected: those it comes from, with what they declare or call. */
  function sources() {
    const { language, lines } = chosen, text = texts[language].now, found = new Set([...lines].map(i => text.from?.[i] ?? 0).filter(Boolean));
    for (const group of text.together) if (group.some(n => found.has(n))) group.forEach(n => found.add(n));
    return found;
  }
  /** The places of a text's lines that belong to what is selected. */
  function linked(language) {
    const text = texts[language]?.now;
    if (!chosen || !text) return null;
    if (links[language]) return links[language];
    const from = sources(), own = language === chosen.language ? chosen.lines : new Set();
    return links[language] = new Set(text.lines.map((_, i) => i).filter(i => own.has(i) || from.has(text.from?.[i] ?? 0)));
  }
  return {
    /** The code of another call, or of none: nothing of it is selected. `fresh`: it was compiled anew. */
    of(next, fresh = false) {
      if (next === call && !fresh) return;
      if (next !== call) chosen = null;
      call = next; texts = {}; links = {};
    },
    get call() { return call; },
    get chosen() { return chosen; },
    /** The answer with the text in a language, asked for once. */
    read(language) {
      const mine = texts[language] ??= {};
      return mine.coming ??= host.ask("kernel", { call, language }).then(({ data }) => { mine.now = data; if (mine === texts[language]) links = {}; return data; }, error => { mine.coming = null; throw error; });
    },
    /** Select lines by their places in a text; none for nothing. */
    choose(language, lines) {
      chosen = lines.length && texts[language]?.now ? { language, lines: new Set(lines) } : null;
      links = {};
      changed();
    },
    /** The line before or after the selected one in a text. */
    step(language, by) {
      const text = texts[language]?.now, lit = [...linked(language) ?? []];
      if (!text) return;
      const at = chosen?.language === language ? Math[by < 0 ? "min" : "max"](...chosen.lines) + by : lit.length ? lit[0] : 0;
      this.choose(language, [Math.max(0, Math.min(text.lines.length - 1, at))]);
    },
    linked,
    /** What an instruction of a text does, where that is known. */
    help: (language, word) => texts[language]?.now?.help[word] ?? null,
    own: language => chosen?.language === language ? chosen.lines : null,
    /** What is selected, in words: how many lines of each language belong to it. */
    words() {
      const { language, lines } = chosen, first = Math.min(...lines) + 1, last = Math.max(...lines) + 1;
      const what = first === last ? `line ${first}` : `lines ${first} to ${last}`, others = LANGUAGES.filter(([name]) => name !== language && texts[name]?.now).map(([name]) => `${plural(linked(name).size, "line")} of ${CALLED[name]}`);
      const none = !sources().size ? texts[language].now.from ? ": of no single line of the source" : `: ${texts[language].now.note}` : "";
      const word = lines.size === 1 ? texts[language].now.lines[first - 1].match(/^\s+(?:(?:@!?%\w+\s+)?[a-z]|\/\*[0-9a-f]+\*\/\s+(?:@!?U?P\w+\s+)?[A-Z])[\w.]*/)?.[0].match(/[\w.]+$/)[0] : null, help = this.help(language, word);
      return `${CALLED[language][0].toUpperCase()}${CALLED[language].slice(1)} ${what}${none || (others.length ? `: ${others.join(", ")}` : "")}${help ? `. ${word}: ${help}` : ""}`;
    },
  };
}
