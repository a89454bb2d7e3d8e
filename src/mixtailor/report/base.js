// What all parts of the page use. `kept` outlives a redraw: the live page draws itself again when its data changes.
let shown = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set(), kept = {};
const colour = (rule) => (shown.looks[rule] || { colour: "#64748b" }).colour;
const dash = (rule) => shown.looks[rule].dash.join(" ");

const make = (name, attributes = {}, ...children) => {
  const svg = ["svg", "path", "line", "text", "polyline", "rect", "circle", "g"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

const tip = document.getElementById("tip");
const put = (box, left, top) => {
  box.hidden = false;
  box.style.left = `${Math.max(4, Math.min(left, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.max(4, Math.min(top, innerHeight - box.offsetHeight - 8))}px`;
};

// Terms: hover, focus and tap show the meaning; Escape, leaving and a tap elsewhere hide it.
const meaning = document.getElementById("meaning");
const explain = (button) => {
  meaning.textContent = document.getElementById(button.getAttribute("aria-describedby")).textContent;
  const box = button.getBoundingClientRect();
  put(meaning, box.left, box.bottom + 6);
};
const explainTerms = () => {
  for (const button of document.querySelectorAll(".term")) {
    for (const kind of ["pointerenter", "focus", "click"]) button.addEventListener(kind, () => explain(button));
    for (const kind of ["pointerleave", "blur"]) button.addEventListener(kind, (event) => {
      if (event.pointerType !== "touch") meaning.hidden = true;
    });
  }
};
document.addEventListener("keydown", (event) => { if (event.key === "Escape") meaning.hidden = true; });
document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".term")) meaning.hidden = true; });
addEventListener("resize", () => {
  if (kept.redraw) kept.redraw();
  if (kept.resize) kept.resize();
});
