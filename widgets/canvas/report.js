
// A report's last lines: its content is compressed, and questions share their answers; put them together, then show the house.
const raw = atob(document.getElementById("content").textContent), packed = new Blob([Uint8Array.from(raw, letter => letter.charCodeAt(0))]);
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
