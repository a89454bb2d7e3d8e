// The live page: when the server says that files changed, the page is fetched again, and what the reader chose stays.
const named = (select) => (select.closest("label") || select).id;
const reload = async () => {
  const answer = await fetch("/", { cache: "no-store" });
  if (!answer.ok) throw new Error(`the server said ${answer.status}`);
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  const chosen = [...document.querySelectorAll("main select")].map((select) => [named(select), select.selectedOptions[0] && select.selectedOptions[0].text]);
  const open = [...document.querySelectorAll("main details[open] > summary")].map((each) => each.textContent);
  const focused = document.activeElement && document.activeElement.id, across = scrollY;
  document.querySelector("main").replaceWith(document.adoptNode(next.querySelector("main")));
  document.title = next.title;
  shown = JSON.parse(next.getElementById("data").textContent);
  kept.resize = kept.redraw = null;
  draw();
  for (const [name, text] of chosen) {
    const label = document.getElementById(name), select = label && !label.closest("#player") && label.querySelector("select");
    const place = select ? [...select.options].findIndex((option) => option.text === text) : -1;
    if (place > 0) { select.selectedIndex = place; select.dispatchEvent(new Event("change")); }
  }
  for (const each of document.querySelectorAll("main details > summary")) each.parentElement.open = open.includes(each.textContent);
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus({ preventScroll: true });
  scrollTo(0, across);
};
const beat = (text, lost) => {
  const line = document.getElementById("live");
  line.toggleAttribute("data-lost", lost);
  document.getElementById("beat").textContent = text;
};
const events = new EventSource("/events");
let busy = Promise.resolve();
events.addEventListener("changed", () => {
  busy = busy.then(reload).then(() => beat(`Updated at ${new Date().toLocaleTimeString("en-GB")}.`, false), (error) => beat(`Not updated: ${error.message}.`, true));
});
events.onopen = () => beat("Live.", false);
events.onerror = () => beat("The server is not there; the page shows what it last said.", true);
