// Legend, charts, tables: everything but the player.
const drawPage = () => {
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
      redraw();
      if (kept.resize) kept.resize();
    });
    legend.append(button);
  }

  const LEFT = 46, BOTTOM = 38, STRIP = 12, HIGH = 240;
  const scale = document.querySelector("#scale select");

  // The vertical range: of the lines shown, over all rounds or, where rules differ at the end, over the last half. Every line
  // starts low, before training: with a rule hidden that start does not count, else hiding would change nothing.
  const range = (lines, last) => {
    if (!lines.length || scale.value === "all") return [0, 100];
    const from = scale.value === "end" ? last / 2 : hidden.size ? 1 : 0;
    const seen = lines.flatMap((line) => line.rounds.flatMap((round, k) => round >= from ? [line.low[k], line.high[k]] : []));
    if (!seen.length) return [0, 100];
    const step = Math.max(...seen) - Math.min(...seen) > 20 ? 10 : 2;
    const low = Math.max(0, step * Math.floor(Math.min(...seen) / step));
    return [low, Math.max(low + step, Math.min(100, step * Math.ceil(Math.max(...seen) / step)))];
  };

  // Labels at the ends of lines, moved apart where lines end together.
  const spread = (ends, least, most, gap) => {
    ends.sort((a, b) => a.y - b.y);
    ends.forEach((end, k) => { end.at = Math.max(end.y, k ? ends[k - 1].at + gap : least); });
    for (let k = ends.length - 1; k >= 0; k--) ends[k].at = Math.min(ends[k].at, k < ends.length - 1 ? ends[k + 1].at - gap : most);
    return ends;
  };

  const picture = (chart, wide) => {
    const lines = chart.series.filter((line) => !hidden.has(line.rule));
    const strips = chart.strips.filter((strip) => !hidden.has(strip.rule));
    const W = Math.max(280, wide), longest = Math.max(4, ...lines.map((line) => line.rule.length));
    const right = Math.min(0.38 * W, 24 + 7 * longest), letters = Math.floor((right - 18) / 7);
    // What is in parentheses tells "MixTailor (our pool)" and "MixTailor (paper's pool)" apart; their beginnings do not.
    const short = (name) => {
      const inner = name.length > letters && / \((.+)\)$/.exec(name)?.[1] || name;
      return inner.length > letters ? `${inner.slice(0, letters - 1)}…` : inner;
    };
    const TOP = 10 + (STRIP + 4) * strips.length, H = TOP + HIGH + BOTTOM, end = W - right;
    const last = Math.max(1, ...chart.series.flatMap((line) => line.rounds));
    const [low, high] = range(lines, last);
    const x = (round) => LEFT + (end - LEFT) * round / last;
    const y = (value) => TOP + HIGH * (1 - (Math.min(high, Math.max(low, value)) - low) / (high - low));
    const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", tabindex: 0,
      "aria-label": `${chart.title}. ${lines.map((line) => `${line.rule} ends at ${line.mean.at(-1).toFixed(1)} %`).join(", ")}` });
    strips.forEach((strip, k) => {
      const top = 4 + k * (STRIP + 4), group = make("g", { class: "strip", "data-strip": strip.rule });
      for (const part of strip.periods) {
        const whole = Object.values(part.counts).reduce((sum, count) => sum + count, 0);
        let above = top;
        for (const [name, count] of Object.entries(part.counts)) {
          const tall = STRIP * count / whole;
          group.append(make("rect", { x: x(part.start), y: above, width: Math.max(1, x(part.end) - x(part.start) - 0.7), height: tall, fill: colour(name), "data-drawn": name }));
          above += tall;
        }
      }
      group.append(make("text", { class: "label", x: end + 8, y: top + 10 }, short(strip.rule)));
      svg.append(group);
    });
    const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => low + share * (high - low));
    for (const value of steps) {
      svg.append(make("line", { class: "grid", x1: LEFT, x2: end, y1: y(value), y2: y(value) }));
      svg.append(make("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, String(+value.toFixed(1))));
    }
    for (const share of [0, 0.5, 1])
      svg.append(make("text", { x: x(share * last), y: TOP + HIGH + 15, "text-anchor": share === 1 ? "end" : share ? "middle" : "start" },
        Math.round(share * last).toLocaleString("en")));
    svg.append(make("text", { class: "axis", x: (LEFT + end) / 2, y: H - 6, "text-anchor": "middle" }, "round"));
    svg.append(make("text", { class: "axis", x: -(TOP + HIGH / 2), y: 12, transform: "rotate(-90)", "text-anchor": "middle" }, "test accuracy (%)"));
    for (const line of lines) {
      const up = line.rounds.map((round, k) => `${x(round).toFixed(1)},${y(line.high[k]).toFixed(1)}`);
      const down = line.rounds.map((round, k) => `${x(round).toFixed(1)},${y(line.low[k]).toFixed(1)}`).reverse();
      const middle = line.rounds.map((round, k) => `${x(round).toFixed(1)},${y(line.mean[k]).toFixed(1)}`);
      const group = make("g", { "data-rule": line.rule });
      if (line.seeds > 1) group.append(make("path", { d: `M${up.concat(down).join("L")}Z`, fill: colour(line.rule), opacity: 0.13 }));
      group.append(make("polyline", { points: middle.join(" "), fill: "none", stroke: colour(line.rule), "stroke-width": 2,
        "stroke-dasharray": dash(line.rule), "stroke-linejoin": "round" }));
      svg.append(group);
    }
    const ends = lines.map((line) => ({ line, from: x(line.rounds.at(-1)), y: y(line.mean.at(-1)) }));
    const gap = Math.min(14, HIGH / Math.max(1, ends.length));
    for (const { line, from, y: level, at } of spread(ends, TOP + 4, TOP + HIGH, gap)) {
      svg.append(make("path", { d: `M${from},${level}L${end + 7},${at}`, stroke: colour(line.rule), fill: "none" }),
        make("circle", { cx: end + 9, cy: at, r: 3.5, fill: colour(line.rule) }),
        make("text", { class: "label", x: end + 16, y: at + 4 }, short(line.rule)));
    }
    const cursor = make("line", { class: "cursor", y1: TOP, y2: TOP + HIGH, visibility: "hidden" });
    svg.append(cursor);
    const rounds = [...new Set(lines.flatMap((line) => line.rounds))].sort((a, b) => a - b);
    let reading = rounds.length - 1;
    const leave = () => { cursor.setAttribute("visibility", "hidden"); tip.hidden = true; };
    const read = (k, left, top) => {
      if (!rounds.length) return;
      const round = rounds[reading = Math.min(rounds.length - 1, Math.max(0, k))];
      cursor.setAttribute("x1", x(round));
      cursor.setAttribute("x2", x(round));
      cursor.setAttribute("visibility", "visible");
      const values = lines.filter((line) => line.rounds.includes(round))
        .map((line) => [line, line.mean[line.rounds.indexOf(round)]]).sort((a, b) => b[1] - a[1]);
      const drawn = strips.flatMap((strip) => strip.periods.filter((part) => part.start < round && round <= part.end)
        .map((part) => make("div", {}, `${strip.rule} drew ${Object.entries(part.counts).map(([name, count]) => `${name} ${count}×`).join(", ")}`)));
      tip.replaceChildren(make("strong", {}, `round ${round.toLocaleString("en")}`),
        ...values.map(([line, value]) => make("div", {}, make("span", {}, make("i", { style: `--c:${colour(line.rule)}` }), line.rule),
          make("span", {}, `${value.toFixed(1)} %`))), ...drawn);
      put(tip, left, top);
    };
    const pointed = (event) => {
      const box = svg.getBoundingClientRect();
      const wanted = ((event.clientX - box.left) / box.width * W - LEFT) / (end - LEFT) * last;
      read(rounds.reduce((best, other, k) => Math.abs(other - wanted) < Math.abs(rounds[best] - wanted) ? k : best, 0), event.clientX + 14, event.clientY + 14);
    };
    svg.addEventListener("pointermove", pointed);
    svg.addEventListener("pointerdown", pointed);
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") leave();
      if (!move) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect(), k = cursor.getAttribute("visibility") === "hidden" ? reading : reading + move;
      read(k, box.left + x(rounds[Math.min(rounds.length - 1, Math.max(0, k))]) / W * box.width + 14, box.top + 40);
    });
    return make("figure", {}, make("figcaption", {}, chart.short), svg);
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
  let picked = shown.charts.length <= FEW ? null : 0;
  const redraw = () => {
    if (home) {
      const gap = 16, own = picked === null ? shown.charts : [shown.charts[picked]];
      const columns = Math.min(own.length, Math.max(1, Math.floor((home.clientWidth + gap) / (416 + gap))));
      home.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
      home.replaceChildren(...own.map((chart) => picture(chart, (home.clientWidth - gap * (columns - 1)) / columns)));
      const names = [...new Set(own.flatMap((chart) => chart.strips.flatMap((strip) => strip.periods.flatMap((part) => Object.keys(part.counts)))))];
      document.getElementById("key").replaceChildren(...(names.length ? ["Strips above the lines: the rules drawn between two evaluations, "
        + `seed ${own.flatMap((chart) => chart.strips)[0].seed}.`] : []), ...names.map((name) => make("span", {}, make("i", { style: `--c:${colour(name)}` }), name)));
    }
    refresh();
  };
  if (home) scale.addEventListener("change", redraw);
  if (home && picked !== null) choose(document.getElementById("pick"), shown.charts.map((chart) => chart.short), (k) => {
    picked = k;
    redraw();
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
    bars(part, Object.entries(item.counts).sort((a, b) => b[1] - a[1]).map(([name, count]) => [name, count, colour(name)]),
      (count) => `${(100 * count / whole).toFixed(1)} %`);
    draws.append(part);
  }

  const chosen = shown.charts.filter((chart) => chart.chosen);
  const place = document.getElementById("chosen");
  document.getElementById("selection").hidden = !chosen.length && !shown.weights.length;
  if (chosen.length) choose(document.getElementById("pick-chosen"), chosen.map((chart) => chart.short), (k) => {
    const { rows, byzantine, seed } = chosen[k].chosen;
    const head = make("tr", {}, make("th", {}, `worker (seed ${seed})`), ...byzantine.map((lies, worker) =>
      make("th", lies ? { class: "byzantine", title: "Byzantine" } : {}, lies ? `▲ ${worker}` : String(worker))));
    const body = rows.map((row) => make("tr", { "data-rule": row.rule }, make("th", {}, row.rule), ...row.shares.map((share, worker) => {
      const cell = make("td", { class: byzantine[worker] ? "chosen byzantine" : "chosen" }, share ? (100 * share).toFixed(1) : "");
      cell.style.setProperty("--c", byzantine[worker] ? "var(--mark)" : colour(row.rule));
      cell.style.setProperty("--share", Math.min(1, share * 3).toFixed(3));
      return cell;
    })));
    place.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
    refresh();
  });

  // Distances on a logarithmic line: a dot at the mean, a thin line to the farthest.
  const standings = (account) => {
    const known = account.workers.filter((item) => item.distance !== null);
    if (!known.length) return [make("figcaption", {}, "No distances are known.")];
    const height = 18, names = 74, right = 10, top = 8;
    const all = Math.max(280, Math.min(480, document.getElementById("standings").clientWidth || 480));
    const most = Math.max(2, ...known.map((item) => Math.min(item.farthest, 1e4)));
    const least = Math.min(0.5, ...known.filter((item) => item.distance > 0).map((item) => item.distance));
    const low = Math.max(least, most / 1e6);
    const x = (value) => names + (all - names - right) * Math.log(Math.min(Math.max(value, low), most) / low) / Math.log(most / low);
    const bottom = top + height * known.length;
    const svg = make("svg", { viewBox: `0 0 ${all} ${bottom + 34}`, role: "img", "aria-label": "distance of each worker from the results" });
    for (let power = Math.ceil(Math.log10(low)); 10 ** power <= most; power++) {
      svg.append(make("line", { class: power ? "grid" : "unit", x1: x(10 ** power), x2: x(10 ** power), y1: top, y2: bottom }));
      svg.append(make("text", { x: x(10 ** power), y: bottom + 14, "text-anchor": "middle" }, (10 ** power).toLocaleString("en", { maximumFractionDigits: 6 })));
    }
    svg.append(make("text", { x: all / 2, y: bottom + 30, "text-anchor": "middle" }, "distance from the result: mean and farthest"));
    known.forEach((item, k) => {
      const y = top + height * (k + 0.5), kind = item.lied ? "lied" : "honest";
      const name = item.worker.length > 9 ? `${item.worker.slice(0, 8)}…` : item.worker;
      svg.append(make("text", { x: names - 8, y: y + 4, "text-anchor": "end", class: item.lied ? "byzantine" : "" }, item.lied ? `▲ ${name}` : name),
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
        ? make("td", {}, cell(item, name)) : make("th", item.lied ? { class: "byzantine" } : {}, item.lied ? `▲ ${item.worker}` : item.worker))))));
  };
  const told = shown.charts.filter((chart) => chart.accounts.length);
  document.getElementById("reputation").hidden = !told.length;
  if (told.length) choose(document.getElementById("pick-attack"), told.map((chart) => chart.short), (k) =>
    choose(document.getElementById("pick-rule"), told[k].accounts.map((account) => account.rule), (rule) => {
      document.getElementById("standings").replaceChildren(...standings(told[k].accounts[rule]));
      document.getElementById("accounts").replaceChildren(listed(told[k].accounts[rule]));
    }));
  kept.redraw = redraw;
  redraw();
};

const draw = () => {
  drawPage();
  drawPlayer(shown);
  explainTerms();
};
draw();
