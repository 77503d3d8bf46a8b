// A chart: a plotly figure in the colours of the page. A point that stands for something is clicked, or come to by arrows and entered.
import { h, put, clamp, fit, textWidth } from "./dom.js";
import { lastOnly } from "./host.js";
import { watchTheme } from "./paint.js";
import { lightMarks } from "./see.js";

const WIDE = 620; // from here on the legend stands at the right
const ABOVE = { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom" }, BELOW = { ...ABOVE, y: -0.02, yanchor: "top" };
const BESIDE = { orientation: "v", x: 1.01, y: 1, xanchor: "left", yanchor: "top" };

/** plotly, which comes when the first chart is shown: once a page, however many houses there are. */
function plotly(host) {
  return globalThis.ironworksPlotly ??= load(host).catch(error => { globalThis.ironworksPlotly = null; throw error; });
}

async function load(host) {
  const packed = new Blob([await host.library()]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script"), before = window.Plotly; // a page's own stays as it is
  script.textContent = `globalThis.ironworksMade = ((module, define) => {\n${await new Response(packed).text()}\nreturn module.exports;\n})({ exports: {} });`;
  document.head.append(script);
  script.remove();
  if (before) window.Plotly = before; else delete window.Plotly;
  const made = globalThis.ironworksMade;
  delete globalThis.ironworksMade;
  return made;
}

/** A value with our tokens as they are now; words stay. */
function coloured(value, style) {
  if (typeof value === "string") return value.replace(/var\(--([\w-]+)\)/g, (_, token) => style.getPropertyValue(`--${token}`).trim());
  if (Array.isArray(value)) return value.map(one => coloured(one, style));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, name === "customdata" || name === "meta" ? one : coloured(one, style)]));
}

/** Words in lines that are no longer than the room, cut between words. */
function inLines(words, room, font) {
  const lines = [""];
  for (const word of words.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && textWidth(longer, font) > room) lines.push(word); else lines[lines.length - 1] = longer;
  }
  return lines.join("<br>");
}

/** An axis whose title has this much room; in a narrow chart only the tens of a logarithm are written, where it has several. */
function fitted(axis, room, font, narrow) {
  const title = axis.title?.text ? { ...axis.title, text: inLines(axis.title.text, room, font) } : axis.title;
  const tens = narrow && axis.type === "log" ? axis.tickvals?.flatMap((v, n) => v > 0 && Math.log10(v) % 1 === 0 ? [n] : []) ?? [] : [];
  return { ...axis, title, ...(tens.length > 3 && { tickvals: tens.map(n => axis.tickvals[n]), ticktext: tens.map(n => axis.ticktext[n]) }) };
}

const plain = words => words.replace(/<br>/g, ", ");

/** Give what is drawn of a figure the words that sentences light it by, as marks of a drawing have them: a trace or each of its points its `meta.k`, a label its `name`. What stands for all points, as their line does, has the words that they share. */
function keyed(plot, figure) {
  for (const node of plot.querySelectorAll("[data-k]")) delete node.dataset.k;
  for (const node of plot.querySelectorAll(".cartesianlayer .trace")) {
    const k = figure.data[node.__data__?.[0]?.trace?.index]?.meta?.k ?? "";
    if (typeof k === "string") { node.dataset.k = k; continue; }
    const shared = (k[0] ?? "").split(" ").filter(word => k.every(words => words.split(" ").includes(word))).join(" ");
    for (const inner of node.querySelectorAll(".js-line,.js-fill,.point,.textpoint,.errorbar")) inner.dataset.k = inner.matches(".js-line,.js-fill") ? shared : k[inner.__data__?.i] ?? "";
  }
  for (const node of plot.querySelectorAll(".annotation")) node.dataset.k = figure.layout.annotations?.[node.dataset.index]?.name ?? "";
}

/** `ctx`: host, say(text), op() and names() of the selection, take(patch) of what a point stands for, pick(names) of its operators. */
export function chartView(ctx) {
  const plot = h("div"), words = h("p", { class: "words" }), box = h("div", { class: "chart", tabindex: 0, role: "group", onkeydown: keys }, words, plot);
  let shown = null, library = null, painted = "", bound = false, asked = 0, at = -1, size = [0, 0];

  /** Draw `figure`, which `said` tells in words; `name` is the picture's. */
  async function draw(figure, said, name) {
    const number = ++asked;
    const about = `${name}: ${said.split("; ")[0]}`; // what is zoomed stays so for as long as the chart is about the same
    if (shown?.about !== about) at = -1;
    shown = { figure, said, name, about };
    words.textContent = said;
    lightMarks(plot, []);
    box.setAttribute("aria-label", `Chart. ${said}. Arrows go from point to point, Enter takes one, T shows a table.`);
    if (!library) put(plot, h("div", { class: "empty" }, "Drawing…"));
    try { library ??= await plotly(ctx.host); } catch (error) { if (number === asked) put(plot, h("div", { class: "empty" }, `The chart cannot be drawn here: ${error.sentence ?? error} Press T for the table.`)); return; }
    if (number === asked) await paint();
  }
  const paint = lastOnly(async () => {
    if (!library || !shown || !box.getClientRects().length) return; // hidden, it is drawn when it has a size again
    if (painted !== shown.about) { // another chart begins anew
      if (painted) library.purge(plot);
      plot.replaceChildren();
      painted = shown.about; bound = false;
    }
    const style = getComputedStyle(box), data = coloured(shown.figure.data, style);
    for (const trace of data) if (trace.meta?.ops) trace.selectedpoints = lit(trace);
    const [wide] = room(), font = `13px ${shown.figure.layout.font?.family ?? "sans-serif"}`; // of what a point says
    if (wide < WIDE) for (const trace of data) trace.customdata = trace.customdata?.map(said => typeof said === "string" ? said.split("<br>").map(line => inLines(line, wide - 40, font)).join("<br>") : said);
    if (bound && plot.data?.length === data.length) data.forEach((trace, n) => { trace.visible = plot.data[n].visible; }); // what was left out by its name stays so
    const config = { displaylogo: false, displayModeBar: true, modeBarButtons: [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"], ["png", "svg"].map(save)] };
    await library.react(plot, data, laid(style), config);
    const over = beyond(), between = middle(); // what is known of its room only now
    if (over > 0 || between) await library.react(plot, data, laid(style, Math.ceil(1.5 * over), between), config);
    if (bound) return;
    bound = true;
    plot.on("plotly_afterplot", () => keyed(plot, shown.figure));
    keyed(plot, shown.figure);
    plot.on("plotly_click", event => act(event.points[0].curveNumber, event.points[0].pointNumber));
  });
  /** How far words that stand beside their bars run out of the chart. */
  const beyond = () => Math.max(0, ...[...plot.querySelectorAll(".textpoint text,.bartext,.annotation-text")].map(node => node.getBoundingClientRect().right - plot.getBoundingClientRect().right));
  /** The room of a title below a chart that runs out of it: as much on both sides of its middle. */
  function middle() {
    const box = plot.getBoundingClientRect(), title = plot.querySelector(".xtitle")?.getBoundingClientRect(), at = title && (title.left + title.right) / 2;
    return title && (title.left < box.left || title.right > box.right) ? 2 * Math.min(at - box.left, box.right - at) - 8 : 0;
  }
  function laid(style, spare = 0, under = 0) {
    const [width, height] = room(), wide = width >= WIDE;
    const apart = !wide || shown.figure.layout.xaxis?.side === "top";
    plot.classList.toggle("apart", apart); // its buttons have a row of their own
    const layout = coloured(shown.figure.layout, style), ink = style.getPropertyValue("--ink3").trim();
    const legend = wide ? BESIDE : layout.xaxis?.side === "top" ? BELOW : ABOVE, font = `13px ${layout.font?.family ?? "sans-serif"}`;
    const axes = Object.fromEntries(Object.keys(layout).filter(name => /^[xy]axis/.test(name)).map(name => [name, fitted(layout[name], name[0] === "y" ? 0.7 * height : under || width, font, !wide)]));
    const names = wide ? [] : [...new Set(shown.figure.data.flatMap(t => t.y ?? []).filter(one => typeof one === "string"))];
    if (names.length) Object.assign(axes.yaxis, { tickvals: names, ticktext: names.map(name => fit(name, 0.36 * width, font)) });
    return { ...layout, ...axes, width, height: apart ? height - 26 : height, margin: { l: 12, r: 12 + spare, t: 30, b: 12 }, legend: { ...legend, traceorder: "normal", font: { size: 13 } }, font: { ...layout.font, size: 13 }, hovermode: "closest", uirevision: shown.about,
      modebar: { bgcolor: "transparent", color: ink, activecolor: style.getPropertyValue("--ink").trim() } };
  }
  /** How low it may be; a legend above it, where it is narrow, takes no room from it. */
  function least() {
    const { data, layout } = shown.figure, entries = size[0] >= WIDE ? 0 : 3 + data.filter(t => t.name && t.showlegend !== false).length;
    return (layout.meta?.least ?? (layout.yaxis2 ? 320 : 200)) + 19 * entries;
  }
  const room = () => [Math.max(280, size[0] || box.clientWidth), Math.max(least(), (size[1] || 400) - words.offsetHeight)];
  /** The points of a trace that are about the selected operator. */
  const lit = trace => { const name = ctx.names()[ctx.op()]; return trace.meta.ops.flatMap((ops, n) => ops.includes(name) ? [n] : []); };
  function light() {
    if (!bound || !shown || !box.isConnected) return;
    shown.figure.data.forEach((trace, n) => { if (trace.meta?.ops) library.restyle(plot, { selectedpoints: [lit(trace)] }, [n]); });
  }
  function act(curve, point) {
    const meta = shown.figure.data[curve].meta;
    if (meta?.take) ctx.take(meta.take[point]); else if (meta?.ops?.[point]?.length) ctx.pick(meta.ops[point]);
  }
  /** A picture to keep, with its words over it; false where no chart is shown. */
  async function keep(format) {
    if (!bound || !box.isConnected) return false;
    const lines = shown.said.split("; ").length, top = 16 * lines + (plot.layout.xaxis.side === "top" ? 64 : 24);
    const title = { text: shown.said.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/; /g, "<br>"), x: 0.01, y: 1, yref: "container", yanchor: "top", pad: { t: 16 }, font: { size: 12 } }, [width, height] = room();
    await library.downloadImage({ data: plot.data, layout: { ...plot.layout, title, legend: { ...plot.layout.legend, ...BESIDE }, margin: { ...plot.layout.margin, t: top } } }, { format, width, height: height + 50, filename: `ironworks-${shown.name}` });
    return true;
  }
  const save = format => ({ name: format, title: `Save as ${format.toUpperCase()}`, icon: format === "png" ? library.Icons.camera : library.Icons.disk, click: () => keep(format) });
  const points = () => plot._fullData.flatMap((trace, curveNumber) => trace.visible === true && trace.hoverinfo !== "skip" && trace.customdata ? shown.figure.data[curveNumber].customdata.map((text, pointNumber) => ({ curveNumber, pointNumber, text })) : []);
  function keys(event) {
    if (event.target !== box || !bound || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const every = points(), to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: every.length - 1 }[event.key];
    if (to === undefined && event.key !== "Enter" || !every.length) return;
    event.preventDefault(); event.stopPropagation();
    if (to === undefined) { if (every[at]) act(every[at].curveNumber, every[at].pointNumber); return; }
    at = clamp(to, 0, every.length - 1);
    const { curveNumber, pointNumber, text } = every[at];
    library.Fx.hover(plot, [{ curveNumber, pointNumber }]);
    ctx.say(plain(text));
  }
  // Its colours are the page's, also when they change.
  const unwatch = watchTheme(() => paint()), themed = new MutationObserver(() => paint());
  return {
    box, draw, light, words, save: keep,
    /** As wide and high as this. */
    resize(width, height) { const same = size[0] === width && size[1] === height; size = [width, height]; if (!same) paint(); },
    /** The house around it, whose button changes the theme. */
    within: root => themed.observe(root, { attributes: true, attributeFilter: ["class"] }),
    close() { unwatch(); themed.disconnect(); if (bound) library.purge(plot); },
  };
}

/** A chart alone in `el`: of an answer `data` to the question for a picture. */
export function chartInto(el, host, data, name) {
  const none = () => {}, chart = chartView({ host, say: text => { live.textContent = text; }, op: () => -1, names: () => [], take: none, pick: none });
  const live = h("p", { class: "words", "aria-live": "polite" }), fit = () => chart.resize(el.clientWidth, 420), watch = new ResizeObserver(fit);
  el.prepend(chart.box, live);
  fit();
  chart.draw(data.figure, data.said, name);
  watch.observe(el);
  return () => { watch.disconnect(); chart.close(); };
}
