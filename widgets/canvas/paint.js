// The canvas side of theme.py: the colours of the page as they are now, and the hatches as canvas patterns.

/** Colours by token, patterns by name; `fresh()` reads them again after a change of theme or of pixel ratio. */
export function palette(root, hatches) {
  let style, ratio, made = new Map();
  const self = {
    fresh() { style = getComputedStyle(root); ratio = window.devicePixelRatio || 1; made = new Map(); },
    colour: token => style.getPropertyValue(`--${token}`).trim(),
    font: (px, name = "ui", weight = 400) => `${weight} ${px}px ${style.getPropertyValue(`--${name}`)}`,
    /** A hatch, with its origin moved along by `shift` pixels so that it stays with what it fills. */
    pattern(pen, name, shift = 0) {
      if (!made.has(name)) made.set(name, pen.createPattern(tile(self, hatches[name], ratio), "repeat"));
      const pattern = made.get(name);
      pattern.setTransform(new DOMMatrix([1 / ratio, 0, 0, 1 / ratio, shift, 0]));
      return pattern;
    },
    get ratio() { return ratio; },
  };
  self.fresh();
  return self;
}

function tile(colours, hatch, ratio) {
  const canvas = document.createElement("canvas"), size = Math.max(1, Math.round(hatch.size * ratio));
  canvas.width = canvas.height = size;
  const pen = canvas.getContext("2d");
  pen.scale(size / hatch.size, size / hatch.size);
  if (hatch.ground) { pen.fillStyle = colours.colour(hatch.ground); pen.fillRect(0, 0, hatch.size, hatch.size); }
  pen.globalAlpha = hatch.alpha;
  pen.strokeStyle = pen.fillStyle = colours.colour(hatch.ink);
  pen.lineWidth = hatch.width;
  for (const [x0, y0, x1, y1] of hatch.lines) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }
  for (const [x, y, r] of hatch.dots) { pen.beginPath(); pen.arc(x, y, r, 0, 7); pen.fill(); }
  return canvas;
}

const MARKS = ["data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-kind", "data-vscode-theme-id", "theme"];
const marked = () => [document.documentElement, document.body].map(node => [...MARKS.map(name => node.getAttribute(name)), ...[...node.classList].filter(name => name.startsWith("vscode-"))].join(" ")).join("; ");

/** Call `act` when the theme of the page changes: JupyterLab's, VS Code's, Colab's, or the system's; returns what ends it. `THEMED` of widgets/draw/theme.py are the marks that its rules look at. */
export function watchTheme(act) {
  const scheme = matchMedia("(prefers-color-scheme:dark)");
  let before = marked();
  const look = () => { const now = marked(), other = now !== before; before = now; if (other) act(); };
  const watcher = new MutationObserver(look);
  for (const node of [document.documentElement, document.body]) watcher.observe(node, { attributes: true, attributeFilter: [...MARKS, "class"] });
  scheme.addEventListener("change", act);
  return () => { watcher.disconnect(); scheme.removeEventListener("change", act); };
}
