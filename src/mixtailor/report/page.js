"use strict";
(() => {
  const shown = JSON.parse(document.getElementById("data").textContent);
  const colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8b5cf6", "#64748b", "#e11d48",
    "#65a30d", "#0f766e", "#a16207"];
  const dashes = ["", "6 3", "2 2", "8 3 2 3"];
  const colour = (rule) => colours[shown.rules.indexOf(rule) % colours.length];
  const dash = (rule) => dashes[Math.floor(shown.rules.indexOf(rule) / colours.length) % dashes.length];
  const hidden = new Set();

  const make = (name, attributes = {}, ...children) => {
    const svg = ["svg", "path", "line", "text", "polyline", "rect", "circle", "g"].includes(name);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  const refresh = () => {
    for (const node of document.querySelectorAll("[data-rule]"))
      node.toggleAttribute("data-off", hidden.has(node.dataset.rule));
    for (const button of document.querySelectorAll("#legend button"))
      button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.name)));
  };

  const legend = document.getElementById("legend");
  for (const rule of legend ? shown.rules : []) {
    const sample = make("svg", { viewBox: "0 0 16 6" }, make("line", { x1: 0, y1: 3, x2: 16, y2: 3, stroke: colour(rule),
      "stroke-width": 3, "stroke-dasharray": dash(rule) }));
    const button = make("button", { type: "button", "data-name": rule, "aria-pressed": "true" }, sample, rule);
    button.addEventListener("click", () => {
      hidden.has(rule) ? hidden.delete(rule) : hidden.add(rule);
      refresh();
    });
    legend.append(button);
  }

  const tip = document.getElementById("tip");
  const W = 440, H = 270, LEFT = 34, RIGHT = 8, TOP = 8, BOTTOM = 24;

  const picture = (chart) => {
    const last = Math.max(1, ...chart.series.flatMap((line) => line.rounds));
    const x = (round) => LEFT + (W - LEFT - RIGHT) * round / last;
    const y = (value) => TOP + (H - TOP - BOTTOM) * (1 - value / 100);
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": chart.title });
    for (const value of [0, 25, 50, 75, 100]) {
      svg.append(make("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(make("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, String(value)));
    }
    for (const share of [0, 0.5, 1])
      svg.append(make("text", { x: x(share * last), y: H - 6, "text-anchor": share === 1 ? "end" : share ? "middle" : "start" },
        Math.round(share * last).toLocaleString("en")));
    for (const line of chart.series) {
      const up = line.rounds.map((round, k) => `${x(round).toFixed(1)},${y(line.high[k]).toFixed(1)}`);
      const down = line.rounds.map((round, k) => `${x(round).toFixed(1)},${y(line.low[k]).toFixed(1)}`).reverse();
      const middle = line.rounds.map((round, k) => `${x(round).toFixed(1)},${y(line.mean[k]).toFixed(1)}`);
      const group = make("g", { "data-rule": line.rule });
      if (line.seeds > 1) group.append(make("path", { d: `M${up.concat(down).join("L")}Z`, fill: colour(line.rule), opacity: 0.13 }));
      group.append(make("polyline", { points: middle.join(" "), fill: "none", stroke: colour(line.rule), "stroke-width": 2,
        "stroke-dasharray": dash(line.rule), "stroke-linejoin": "round" }));
      svg.append(group);
    }
    const cursor = make("line", { class: "cursor", y1: TOP, y2: H - BOTTOM, visibility: "hidden" });
    svg.append(cursor);
    const rounds = [...new Set(chart.series.flatMap((line) => line.rounds))].sort((a, b) => a - b);
    const leave = () => { cursor.setAttribute("visibility", "hidden"); tip.hidden = true; };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const wanted = ((event.clientX - box.left) / box.width * W - LEFT) / (W - LEFT - RIGHT) * last;
      const round = rounds.reduce((best, other) => Math.abs(other - wanted) < Math.abs(best - wanted) ? other : best, rounds[0]);
      cursor.setAttribute("x1", x(round));
      cursor.setAttribute("x2", x(round));
      cursor.setAttribute("visibility", "visible");
      const lines = chart.series.filter((line) => !hidden.has(line.rule) && line.rounds.includes(round))
        .map((line) => [line, line.mean[line.rounds.indexOf(round)]]).sort((a, b) => b[1] - a[1]);
      tip.replaceChildren(make("strong", {}, `round ${round.toLocaleString("en")}`),
        ...lines.map(([line, value]) => make("div", {}, make("span", { style: `color:${colour(line.rule)}` }, line.rule),
          make("span", {}, `${value.toFixed(1)} %`))));
      tip.hidden = false;
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      const top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8);
      tip.style.left = `${Math.max(4, left)}px`;
      tip.style.top = `${Math.max(4, top)}px`;
    });
    return make("figure", {}, make("figcaption", {}, chart.title), svg);
  };

  // With many charts one is shown at a time.
  const FEW = 8;
  const choose = (label, titles, show) => {
    const select = label.querySelector("select");
    select.replaceChildren();
    titles.forEach((title, k) => select.append(make("option", { value: k }, title)));
    select.onchange = () => show(Number(select.value));
    label.hidden = titles.length < 2;
    show(0);
  };

  const home = document.getElementById("charts");
  if (home && shown.charts.length <= FEW) home.append(...shown.charts.map(picture));
  else if (home) choose(document.getElementById("pick"), shown.charts.map((chart) => chart.title), (k) => {
    home.replaceChildren(picture(shown.charts[k]));
    refresh();
  });

  const bars = (home, rows, unit) => {
    const most = Math.max(...rows.map(([, value]) => value));
    for (const [name, value, tint, rule] of rows) {
      const row = make("div", { class: "bar" }, make("span", {}, name),
        make("span", { style: `width:${(100 * value / most).toFixed(1)}%;--c:${tint}` }), make("span", {}, unit(value)));
      if (rule) row.dataset.rule = rule;
      home.append(row);
    }
  };
  const times = document.getElementById("times");
  if (times) bars(times, shown.times.map((item) => [item.rule, item.microseconds, colour(item.rule), item.rule]),
    (value) => value >= 1000 ? `${(value / 1000).toFixed(2)} ms` : `${value.toFixed(0)} µs`);
  const draws = document.getElementById("draws");
  if (draws) for (const item of shown.draws) {
    const whole = Object.values(item.counts).reduce((sum, count) => sum + count, 0);
    const part = make("div", { "data-rule": item.rule }, make("h3", {}, item.rule));
    bars(part, Object.entries(item.counts).map(([name, count]) => [name, count, colour(item.rule)]),
      (count) => `${(100 * count / whole).toFixed(1)} %`);
    draws.append(part);
  }

  const chosen = shown.charts.filter((chart) => chart.chosen);
  const place = document.getElementById("chosen");
  document.getElementById("selection").hidden = !chosen.length && !shown.weights.length;
  if (chosen.length) choose(document.getElementById("pick-chosen"), chosen.map((chart) => chart.title), (k) => {
    const { rows, liars, seed } = chosen[k].chosen;
    const head = make("tr", {}, make("th", {}, `worker (seed ${seed})`), ...liars.map((lies, worker) =>
      make("th", lies ? { class: "liar", title: "lied" } : {}, lies ? `▲ ${worker}` : String(worker))));
    const body = rows.map((row) => make("tr", { "data-rule": row.rule }, make("th", {}, row.rule), ...row.shares.map((share, worker) => {
      const cell = make("td", { class: liars[worker] ? "liar" : "" }, share ? (100 * share).toFixed(1) : "");
      cell.style.background = `color-mix(in srgb, ${liars[worker] ? "var(--mark)" : colour(row.rule)} ${Math.round(70 * Math.min(1, share * 3))}%, transparent)`;
      return cell;
    })));
    place.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
    refresh();
  });

  // Distances on a logarithmic line: a dot at the mean, a thin line to the farthest.
  const standings = (account) => {
    const known = account.workers.filter((item) => item.distance !== null);
    if (!known.length) return [make("figcaption", {}, "No distances are known.")];
    const height = 18, names = 74, right = 10, top = 8, all = 480;
    const most = Math.max(2, ...known.map((item) => Math.min(item.farthest, 1e4)));
    const least = Math.min(0.5, ...known.filter((item) => item.distance > 0).map((item) => item.distance));
    const low = Math.max(least, most / 1e6);
    const x = (value) => names + (all - names - right) * Math.log(Math.min(Math.max(value, low), most) / low) / Math.log(most / low);
    const bottom = top + height * known.length;
    const svg = make("svg", { viewBox: `0 0 ${all} ${bottom + 34}`, role: "img", "aria-label": "distance of each worker from the answers" });
    for (let power = Math.ceil(Math.log10(low)); 10 ** power <= most; power++) {
      svg.append(make("line", { class: power ? "grid" : "unit", x1: x(10 ** power), x2: x(10 ** power), y1: top, y2: bottom }));
      svg.append(make("text", { x: x(10 ** power), y: bottom + 14, "text-anchor": "middle" }, (10 ** power).toLocaleString("en", { maximumFractionDigits: 6 })));
    }
    svg.append(make("text", { x: (names + all) / 2, y: bottom + 30, "text-anchor": "middle" }, "mean distance from the answer, and the farthest"));
    known.forEach((item, k) => {
      const y = top + height * (k + 0.5), kind = item.lied ? "lied" : "honest";
      const name = item.worker.length > 9 ? `${item.worker.slice(0, 8)}…` : item.worker;
      svg.append(make("text", { x: names - 8, y: y + 4, "text-anchor": "end", class: item.lied ? "liar" : "" }, item.lied ? `▲ ${name}` : name),
        make("line", { class: kind, x1: x(item.distance), x2: x(item.farthest), y1: y, y2: y, opacity: 0.5 }),
        make("circle", { class: kind, cx: x(item.distance), cy: y, r: 4 }));
    });
    return [make("figcaption", {}, `${account.rule}, seed ${account.seed}`), svg];
  };
  const listed = (account) => {
    const columns = ["worker", "rounds", "selected", "expected", "quarantined", "distance", "farthest"];
    const cell = (item, name) => item.distance === null && (name === "distance" || name === "farthest") ? "" : String(item[name]);
    return make("table", {}, make("thead", {}, make("tr", {}, ...columns.map((name) => make("th", {}, name)))),
      make("tbody", {}, ...account.workers.map((item) => make("tr", {}, ...columns.map((name, k) => k
        ? make("td", {}, cell(item, name)) : make("th", item.lied ? { class: "liar" } : {}, item.lied ? `▲ ${item.worker}` : item.worker))))));
  };
  const told = shown.charts.filter((chart) => chart.accounts.length);
  document.getElementById("reputation").hidden = !told.length;
  if (told.length) choose(document.getElementById("pick-attack"), told.map((chart) => chart.title), (k) =>
    choose(document.getElementById("pick-rule"), told[k].accounts.map((account) => account.rule), (rule) => {
      document.getElementById("standings").replaceChildren(...standings(told[k].accounts[rule]));
      document.getElementById("accounts").replaceChildren(listed(told[k].accounts[rule]));
    }));
  refresh();
})();
