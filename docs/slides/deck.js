/* Slides: reveal.js with the scheme of the system, charts drawn when they are seen, text that fits. */
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const stored = new URLSearchParams(location.search).get("theme");
const setDark = dark => root.classList.toggle("dark", dark);
setDark(stored ? stored === "dark" : system.matches);
system.addEventListener("change", event => setDark(event.matches));

/* Make the words of a slide smaller until they fit its page. */
function fit(section) {
  const body = section.querySelector(".body");
  if (!body || section.dataset.fitted) return;
  for (let size = 100; size >= 50; size -= 4) {
    section.style.setProperty("--fit", size / 100);
    const over = body.scrollHeight > body.clientHeight + 1 || body.scrollWidth > body.clientWidth + 1;
    if (!over) break;
  }
  section.dataset.fitted = "true";
}

/* Draw the chart of a slide; its axes take the size of the page, so it must be seen. */
function draw(section) {
  for (const chart of section.querySelectorAll(".chart:not(.drawn)")) {
    if (!window.Plotly) continue;
    const { data, layout } = JSON.parse(chart.querySelector("script").textContent);
    const size = { width: 1160, height: 470, autosize: false };
    Plotly.newPlot(chart, data, { ...layout, ...size }, { displaylogo: false });
    chart.classList.add("drawn");
  }
}

function show(event) {
  fit(event.currentSlide);
  draw(event.currentSlide);
}

const deck = new Reveal({
  width: 1280, height: 720, margin: 0, minScale: 0.1, maxScale: 4,
  center: false, hash: true, slideNumber: "c/t", transition: "none", controlsTutorial: false,
  plugins: [RevealNotes, RevealZoom],
});
deck.on("ready", show);
deck.on("slidechanged", show);
deck.addKeyBinding({ keyCode: 84, key: "T", description: "Light or dark" }, () => setDark(!root.classList.contains("dark")));
deck.initialize();
window.deck = deck;
