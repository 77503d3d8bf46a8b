
// A report's last lines: questions share their answers; put them together, then show the house.
const content = JSON.parse(document.getElementById("content").textContent);
content.answers = Object.fromEntries(Object.entries(content.answers).map(([question, at]) => [question, content.values[at]]));
page.show(document.getElementById("house"), content);
