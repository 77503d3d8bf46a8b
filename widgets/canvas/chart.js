// A chart: a plotly figure in the colours of the page. A point that stands for something is clicked, or come to by arrows and entered.
import { h, put, clamp } from "./dom.js";
import { lastOnly } from "./host.js";

const WIDE = 620; // from here on the legend stands at the right
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

const plain = words => words.replace(/<br>/g, ", ");

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
    box.setAttribute("aria-label", `Chart. ${said}. Arrows go from point to point, Enter takes one, T shows a table.`);
    if (!library) put(plot, h("div", { class: "empty" }, "Drawing…"));
    try { library ??= await plotly(ctx.host); } catch (error) { if (number === asked) put(plot, h("div", { class: "empty" }, `The chart cannot be drawn here: ${error.sentence ?? error} Press T for the table.`)); return; }
    if (number === asked) await paint();
  }
  const paint = lastOnly(async () => {
    if (!library || !shown || !box.isConnected) return;
    if (painted !== shown.about) { // another chart begins anew
      if (painted) library.purge(plot);
      plot.replaceChildren();
      painted = shown.about; bound = false;
    }
    const style = getComputedStyle(box), data = coloured(shown.figure.data, style);
    for (const trace of data) if (trace.meta?.ops) trace.selectedpoints = lit(trace);
    if (bound && plot.data?.length === data.length) data.forEach((trace, n) => { trace.visible = plot.data[n].visible; }); // what was left out by its name stays so
    await library.react(plot, data, laid(style), { displaylogo: false, displayModeBar: true, modeBarButtons: [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"], ["png", "svg"].map(save)] });
    if (bound) return;
    bound = true;
    plot.on("plotly_click", event => act(event.points[0].curveNumber, event.points[0].pointNumber));
  });
  function laid(style) {
    const [width, height] = room(), wide = width >= WIDE, layout = coloured(shown.figure.layout, style), ink = style.getPropertyValue("--ink3").trim();
    const legend = wide ? BESIDE : { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom" };
    return { ...layout, width, height, margin: { l: 12, r: 12, t: 30, b: 12 }, legend: { ...legend, traceorder: "normal", font: { size: 11 } }, font: { ...layout.font, size: 11 }, hovermode: "closest", uirevision: shown.about,
      modebar: { bgcolor: "transparent", color: ink, activecolor: style.getPropertyValue("--ink").trim() } };
  }
  const room = () => [Math.max(280, size[0] || box.clientWidth), Math.max(shown.figure.layout.meta?.least ?? (shown.figure.layout.yaxis2 ? 320 : 200), (size[1] || 400) - words.offsetHeight)];
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
  const points = () => plot._fullData.flatMap((trace, curveNumber) => trace.visible === true && trace.hoverinfo !== "skip" && trace.customdata ? trace.customdata.map((text, pointNumber) => ({ curveNumber, pointNumber, text })) : []);
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
  const scheme = matchMedia("(prefers-color-scheme:dark)"), themed = new MutationObserver(() => paint());
  scheme.addEventListener("change", paint);
  themed.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
  return {
    box, draw, light, words, save: keep,
    /** As wide and high as this. */
    resize(width, height) { const same = size[0] === width && size[1] === height; size = [width, height]; if (!same) paint(); },
    /** The house around it, whose button changes the theme. */
    within: root => themed.observe(root, { attributes: true, attributeFilter: ["class"] }),
    close() { scheme.removeEventListener("change", paint); themed.disconnect(); if (bound) library.purge(plot); },
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
