
// A report's last lines: its content is compressed, and questions share their answers; put them together, then show the house.
const inText = document.getElementById("content").textContent, runs = document.getElementById("live-content"); // a page that runs programs is written more densely
const packed = new Blob([runs ? ironworksLive.decodeText(inText) : Uint8Array.from(atob(inText), letter => letter.charCodeAt(0))]);
const content = JSON.parse(await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).text());
content.answers = Object.fromEntries(Object.entries(content.answers).map(([question, at]) => [question, content.values[at]]));
page.show(document.getElementById("house"), content);
// The charts below it are drawn when they come near.
const saved = page.fileHost(content), near = new IntersectionObserver(seen => seen.filter(one => one.isIntersecting).forEach(({ target }) => {
  near.unobserve(target);
  page.chartInto(target, saved, content.answers[page.questionKey("picture", { room: target.dataset.room, op: -1 })].data, target.dataset.room);
}), { rootMargin: "400px" });
document.querySelectorAll("[data-room]").forEach(node => near.observe(node));
document.querySelectorAll(".room > .picture").forEach(node => page.scrolls(node, () => `${node.parentNode.querySelector("header b").textContent}, scrolls`));
// Programs that run here: their panel stands above, and a button beside each picture of the wall.
if (runs) ironworksLive.showLive(document.getElementById("live"), runs.textContent, { worker: ironworksLive.worker, near: document.querySelectorAll("[data-runs]") });
