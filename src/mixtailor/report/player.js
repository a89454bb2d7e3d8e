// The round player. Points are [along the honest mean, across it, length of all that is not along], in lengths of the
// honest mean. Everything drawn was recorded; only the movement between two recorded rounds is interpolated.
const drawPlayer = (shown) => {
  const place = document.getElementById("player");
  if (!place) return;
  const { scenes, epsilons } = shown.player;
  const at = (id) => document.getElementById(id);
  const stage = at("stage"), list = at("results"), says = at("says"), scrub = at("scrub"), play = at("play");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  // A server that draws comes first: it is what the others are compared with.
  const first = Math.max(0, scenes[0].takes.findIndex((each) => each.members.length > 1));
  const state = kept.player ||= { scene: 0, take: first, frame: 0, mode: "happened", view: "plane", epsilon: 2, picked: null };
  // The live page draws again with more runs: what was chosen is found by its name.
  if (state.names) {
    state.scene = Math.max(0, scenes.findIndex((each) => each.title === state.names[0]));
    state.take = Math.max(0, scenes[state.scene].takes.findIndex((each) => each.rule === state.names[1]));
  }
  const scene = () => scenes[state.scene], take = () => scene().takes[state.take], frame = () => take().frames[state.frame];
  const attacking = () => state.mode === "attacker" && frame().tried !== null;

  // What is on the stage: the frame as it was, or with the attack that the reader chose.
  const look = () => {
    const own = frame(), tried = attacking() ? own.tried : null, now = (all) => tried ? all.map((each) => each && each[state.epsilon]) : all;
    const lying = new Set(own.byzantine);
    const points = own.points.map((point, k) => tried && lying.has(k) ? [-epsilons[state.epsilon], 0, 0] : point);
    return { own, lying, points, members: now(tried ? tried.members : own.members), others: now(tried ? tried.others : own.others) };
  };
  const flat = (point) => state.view === "plane" ? [point[0], point[1]] : [point[0], (point[1] < 0 ? -1 : 1) * point[2]];

  // Rows of the list: the server, the classes of its pool, and the other rules.
  const mean = (pairs) => {
    const known = pairs.filter(([value]) => value !== null), whole = known.reduce((sum, [, share]) => sum + share, 0);
    return whole ? known.reduce((sum, [value, share]) => sum + value * share, 0) / whole : null;
  };
  const rows = (seen, members, others) => {
    const own = take(), mixed = own.members.length > 1, found = [], kinds = [...new Set(own.kinds)];
    const value = (point) => point ? point[0] : null;
    const all = members.map((point, k) => [value(point), own.shares[k]]);
    found.push({ name: own.rule, value: mean(all), kind: "server", note: mixed ? "on average over its draws" : "the server's rule" });
    if (mixed) for (const kind of kinds) {
      const which = own.kinds.flatMap((other, k) => other === kind ? [k] : []);
      found.push({ name: kind, value: mean(which.map((k) => all[k])), kind: "member", note: `in the pool${which.length > 1 ? `, the mean of ${which.length}` : ""}` });
    }
    others.forEach((point, k) => {
      const name = own.others[k], same = !mixed && (name === own.rule || name === own.members[0]);
      if (!same) found.push({ name, value: value(point), kind: "other", note: "for comparison" });
    });
    return found;
  };
  const key = (row) => `${row.kind} ${row.name}`;
  const verdict = (value) => value === null ? "returns nothing" : value < 0 ? "goes backwards" : value < 0.5 ? "is slowed" : "goes on";

  // The scale: units of the honest mean to pixels, the same on both axes, in steps so that it seldom changes.
  const STEPS = [1.5, 2, 3, 4, 6, 8, 12, 18, 27, 40];
  let W = 560, H = 420;
  const fit = (seen) => {
    const honest = seen.points.filter((point, k) => point && !seen.lying.has(k)).map(flat);
    const reach = Math.max(1, ...honest.map(([x, y]) => Math.max(Math.abs(x - 0.5), Math.abs(y))));
    const far = seen.points.filter(Boolean).map(flat).concat(seen.members.concat(seen.others).filter(Boolean).map(flat))
      .filter(([x, y]) => Math.hypot(x, y) < Math.max(6 * reach, 12));
    const wide = Math.max(1, ...far.map(([x]) => Math.abs(x - 0.5))), tall = Math.max(0.75, ...far.map(([, y]) => Math.abs(y)));
    const needed = Math.max(wide * H / W, tall) * 1.12;
    return H / 2 / (STEPS.find((step) => step >= needed) || needed);
  };

  // Moving: numbers go to their new values over a moment, unless the reader asked for calm.
  let shownNow = null, moving = 0, playing = 0;
  const blend = (from, to, share) => from && to && from.length === to.length ? to.map((part, k) => from[k] + (part - from[k]) * share) : to;
  const target = () => {
    const seen = look();
    return { seen, unit: fit(seen), points: seen.points.map((p) => p && flat(p)), members: seen.members.map((p) => p && flat(p)),
      others: seen.others.map((p) => p && flat(p)), result: !attacking() && seen.own.result ? flat(seen.own.result) : null,
      step: !attacking() && seen.own.step ? flat(seen.own.step) : null, take: take() };
  };
  const move = (quick) => {
    cancelAnimationFrame(moving);
    const to = target(), from = shownNow, start = performance.now(), lasts = quick || calm.matches || !from || from.take !== to.take ? 0 : 450;
    const turn = (now) => {
      const share = lasts ? Math.min(1, (now - start) / lasts) : 1, soft = share * share * (3 - 2 * share);
      const many = (a, b) => b.map((p, k) => blend(a && a[k], p, soft));
      shownNow = share === 1 ? to : { ...to, unit: from.unit * (to.unit / from.unit) ** soft, points: many(from.points, to.points),
        members: many(from.members, to.members), others: many(from.others, to.others), result: blend(from.result, to.result, soft), step: blend(from.step, to.step, soft) };
      paint(shownNow);
      if (share < 1) moving = requestAnimationFrame(turn);
    };
    turn(start);
    tell(to);
  };

  const paint = (now) => {
    const { unit, seen } = now, own = take(), X = (x) => W / 2 + (x - 0.5) * unit, Y = (y) => H / 2 - y * unit;
    const pad = 14, inside = ([x, y]) => X(x) >= pad && X(x) <= W - pad && Y(y) >= pad && Y(y) <= H - pad;
    // What lies beyond the picture stands at its edge, in its direction from the middle.
    const seat = ([x, y]) => {
      const dx = X(x) - W / 2, dy = Y(y) - H / 2, share = Math.min(1, (W / 2 - pad) / Math.max(1e-9, Math.abs(dx)), (H / 2 - pad) / Math.max(1e-9, Math.abs(dy)));
      return [W / 2 + dx * share, H / 2 + dy * share];
    };
    const parts = [make("rect", { class: "back", x: 0, y: 0, width: Math.max(0, X(0)), height: H })];
    const step = unit > 90 ? 0.5 : unit > 36 ? 1 : unit > 14 ? 2 : 5;
    for (let x = -Math.ceil(W / unit / step) * step; X(x) < W; x += step) if (X(x) > 0 && x !== 0) {
      parts.push(make("line", { class: "grid", x1: X(x), x2: X(x), y1: 0, y2: H }));
      if (X(x) < W - 26) parts.push(make("text", { x: X(x) + 3, y: H - 5 }, String(+x.toFixed(1))));
    }
    parts.push(make("line", { class: "zero", x1: X(0), x2: X(0), y1: 0, y2: H }), make("line", { class: "zero", x1: 0, x2: W, y1: Y(0), y2: Y(0) }),
      make("text", { class: "side", x: X(0) - 8, y: 16, "text-anchor": "end" }, "◀ backwards"), make("text", { class: "side", x: X(0) + 8, y: 16 }, "forwards ▶"),
      make("text", { x: W - 6, y: H - 20, "text-anchor": "end" }, "along the honest mean →"), make("text", { x: 6, y: 16 }, W < 420 ? "" : state.view === "plane" ? "↕ largest deviation" : "↕ whole distance"));
    const weights = !attacking() && seen.own.weights ? seen.own.weights : null, most = weights ? Math.max(...weights.map(Math.abs)) : 1;
    now.points.forEach((point, k) => {
      if (!point) return;
      const [x, y] = seat(point), lies = seen.lying.has(k), size = weights ? 4 + 4 * Math.sqrt(Math.abs(weights[k]) / most) : 6.5;
      const shape = lies ? make("path", { d: `M${x},${y - size * 1.7}l${size * 1.5},${size * 2.7}h${-size * 3}z` }) : make("circle", { cx: x, cy: y, r: size });
      shape.setAttribute("class", lies ? "byzantine" : "honest");
      shape.dataset.says = `worker ${seen.own.workers[k]}, ${lies ? "Byzantine" : "honest"}: ${number(seen.points[k][0])} along the honest mean, ${number(seen.points[k][2])} away from its line`
        + (weights ? `; weight ${number(weights[k])} in the result` : "") + (inside(point) ? "" : "; beyond this picture");
      parts.push(shape);
    });
    parts.push(make("circle", { class: "truth", cx: X(1), cy: Y(0), r: 10, "data-says": "the mean of the honest updates" }), make("text", { class: "label", x: X(1) + 4, y: Y(0) - 15 }, "honest mean"));
    const diamond = (point, name, big, note, label = big) => {
      const [x, y] = seat(point), r = big ? 9 : 5.5;
      const shape = make("path", { class: big ? "result chosen-result" : "result", d: `M${x},${y - r}L${x + r},${y}L${x},${y + r}L${x - r},${y}z`, fill: colour(name) });
      shape.dataset.says = `${name}${note}: ${number(point[0])} along the honest mean`;
      parts.push(shape);
      if (label) parts.push(make("text", { class: "label", x: x + (x > W * 0.7 ? -r - 4 : r + 4), y: y + 18, "text-anchor": x > W * 0.7 ? "end" : "start" }, name));
    };
    const picked = state.picked;
    now.others.forEach((point, k) => point && !hidden.has(own.others[k]) && diamond(point, own.others[k], picked === `other ${own.others[k]}`, ""));
    now.members.forEach((point, k) => {
      const big = own.members.length > 1 && picked === `member ${own.kinds[k]}`;
      if (point) diamond(point, own.kinds[k], big, own.members.length > 1 ? ", in the server's pool" : ", the server's rule", big && own.kinds.indexOf(own.kinds[k]) === k);
    });
    const arrow = (point, kind) => {
      const [x, y] = seat(point), dx = x - X(0), dy = y - Y(0), size = Math.hypot(dx, dy);
      if (size < 6) return;
      const [ux, uy] = [dx / size, dy / size], bx = x - 9 * ux, by = y - 9 * uy;
      parts.push(make("line", { class: kind, x1: X(0), y1: Y(0), x2: bx, y2: by }), make("path", { class: `${kind} head`, d: `M${x},${y}L${bx - 4.5 * uy},${by + 4.5 * ux}L${bx + 4.5 * uy},${by - 4.5 * ux}z` }));
    };
    if (now.step) arrow(now.step, "step");
    if (now.result) { arrow(now.result, "went"); diamond(now.result, seen.own.drawn, true, ", drawn by the server"); }
    stage.replaceChildren(...parts);
  };

  // Words beside the picture: the list of rules, and one sentence that says what happened.
  const number = (value) => Math.abs(value) >= 100 ? value.toExponential(1) : String(+value.toFixed(2));
  const share = (value) => `${Math.round(100 * value)}\u00a0%`;
  const names = (found) => found.length < 4 ? found.map((row) => row.name).join(", ") : `${found.slice(0, 3).map((row) => row.name).join(", ")} and ${found.length - 3} more`;
  const tell = (now) => {
    state.names = [scene().title, take().rule];
    const { seen } = now, own = take(), found = rows(seen, seen.members, seen.others), drawn = attacking() ? null : seen.own.drawn;
    list.replaceChildren(...found.map((row) => {
      const value = row.value, low = -1, high = 1.25, clip = (v) => (Math.min(high, Math.max(low, v)) - low) / (high - low) * 100;
      const bar = value === null ? { style: "width:0" } : { style: `left:${Math.min(clip(0), clip(value)).toFixed(1)}%;width:${Math.abs(clip(value) - clip(0)).toFixed(1)}%;--c:${colour(row.name)}` };
      const button = make("button", { type: "button", class: `row ${row.kind}`, "aria-pressed": String(state.picked === key(row)), title: row.note },
        make("i", { style: `--c:${colour(row.name)}` }), make("span", { class: "name" }, row.name, row.name === drawn && row.kind !== "other" && own.members.length > 1 ? make("mark", {}, "drawn") : ""),
        make("span", { class: "track" }, make("span", bar)), make("span", { class: value !== null && value < 0 ? "bad value" : "value" }, value === null ? "none" : share(value)),
        make("span", { class: "verdict" }, verdict(value)));
      button.addEventListener("click", () => { state.picked = state.picked === key(row) ? null : key(row); move(true); });
      return button;
    }));
    const [server, ...rest] = found, count = seen.own.byzantine.length, text = [];
    if (attacking()) {
      const alone = found.filter((row) => row.value !== null && (row.kind === "other" || (row.kind === "server" && own.members.length === 1)));
      const backwards = alone.filter((row) => row.value < 0), slowed = alone.filter((row) => row.value >= 0 && row.value < 0.5);
      text.push(`You send −${epsilons[state.epsilon]} times the honest mean from ${count} of ${seen.points.length} workers.`,
        backwards.length ? `${names(backwards).replace(/, ([^,]+)$/, " and $1")} ${backwards.length > 1 ? "follow" : "follows"} you backwards.` : "No rule follows you backwards.",
        slowed.length ? `Slowed to less than half: ${names(slowed)}.` : "");
      if (own.members.length > 1 && server.value !== null) text.push(`${own.rule} draws at random among ${own.whole} rules${own.whole > shown.player.most ? ` (${shown.player.most} of them, evenly spread, are tried here)` : ""} and goes ${share(server.value)} of the way on average.`);
    } else {
      text.push(`Round ${seen.own.round.toLocaleString("en")} of ${own.rounds.toLocaleString("en")}.`);
      if (!seen.own.result) text.push("The server skipped this round.");
      else {
        const value = seen.own.result[0], byzantine = seen.own.weights && seen.own.byzantine.reduce((sum, k) => sum + seen.own.weights[k], 0);
        text.push(`${own.members.length > 1 ? `The server drew ${seen.own.drawn}` : `The server used ${seen.own.drawn}`}, whose result goes ${value < 0 ? `backwards, ${share(-value)} of the honest mean's length` : `${share(value)} of the honest mean's way`}.`);
        if (seen.own.weights && count) text.push(byzantine > 0.99 ? "It is what Byzantine workers sent, and nothing else." : `Byzantine updates make up ${share(byzantine)} of it.`);
        if (count) { const worse = rest.filter((row) => row.kind === "other" && row.value !== null && row.value < 0); if (worse.length) text.push(`On the same updates, ${names(worse).replace(/, ([^,]+)$/, " and $1")} would have gone backwards.`); }
      }
      if (seen.own.quarantined.length) text.push(`Quarantined: ${seen.own.quarantined.map((k) => `worker ${seen.own.workers[k]}`).join(", ")}.`);
    }
    says.textContent = text.filter(Boolean).join(" ");
    scrub.value = state.frame;
    scrub.setAttribute("aria-valuetext", `round ${seen.own.round}`);
    at("when").textContent = `round ${seen.own.round.toLocaleString("en")}`;
    at("epsilon").value = state.epsilon;
    at("epsilon").setAttribute("aria-valuetext", `epsilon ${epsilons[state.epsilon]}`);
    at("strength").textContent = `ε = ${epsilons[state.epsilon]}`;
    at("hides").textContent = state.view === "plane" ? `Up and down is the direction in which the updates deviate most from the honest mean: ${share(seen.own.shown)} of their deviation. The rest cannot be seen from here.`
      : "Up and down is the whole distance from the honest mean's line, in all dimensions. Distances to whatever lies on that line are true; two points on one side may be farther apart than they look.";
    stage.setAttribute("aria-label", says.textContent);
    curves(found);
    for (const [k, tick] of [...at("ticks").children].entries()) tick.toggleAttribute("data-now", k === state.frame);
  };

  // Every epsilon at once: how far each rule goes, in this round.
  const curves = () => {
    const box = at("curves"), own = take(), tried = frame().tried;
    at("attack").hidden = !attacking();
    if (!attacking()) return;
    const w = Math.max(280, at("stage").parentElement.clientWidth), h = 170, left = 58, right = 12, top = 8, bottom = 34;
    const x = (k) => left + (w - left - right) * k / (epsilons.length - 1), y = (v) => top + (h - top - bottom) * (1.1 - Math.min(1.1, Math.max(-1, v))) / 2.1;
    const svg = make("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "progress of every rule under every epsilon" });
    for (const value of [1, 0.5, 0, -0.5, -1]) svg.append(make("line", { class: value ? "grid" : "zero", x1: left, x2: w - right, y1: y(value), y2: y(value) }), make("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end" }, share(value)));
    epsilons.forEach((value, k) => svg.append(make("text", { x: x(k), y: h - 18, "text-anchor": "middle" }, String(value))));
    svg.append(make("text", { class: "axis", x: (left + w - right) / 2, y: h - 3, "text-anchor": "middle" }, "epsilon"));
    svg.append(make("line", { class: "cursor", x1: x(state.epsilon), x2: x(state.epsilon), y1: top, y2: h - bottom }));
    const every = epsilons.map((_, k) => rows(null, tried.members.map((all) => all && all[k]), tried.others.map((all) => all && all[k])));
    every[0].forEach((row, place) => {
      if (row.kind === "other" && hidden.has(row.name)) return;
      const line = epsilons.flatMap((_, k) => every[k][place].value === null ? [] : [`${x(k).toFixed(1)},${y(every[k][place].value).toFixed(1)}`]);
      svg.append(make("polyline", { points: line.join(" "), fill: "none", stroke: colour(row.name), "stroke-width": row.kind === "server" || key(row) === state.picked ? 3.5 : 1.6, "data-line": row.name }));
    });
    svg.addEventListener("pointerdown", (event) => {
      const bounds = svg.getBoundingClientRect(), wanted = ((event.clientX - bounds.left) / bounds.width * w - left) / (w - left - right) * (epsilons.length - 1);
      state.epsilon = Math.min(epsilons.length - 1, Math.max(0, Math.round(wanted)));
      move();
    });
    box.replaceChildren(svg);
  };

  // Controls.
  const go = (k) => { state.frame = Math.min(take().frames.length - 1, Math.max(0, k)); move(); };
  const stop = () => { clearInterval(playing); playing = 0; state.playing = false; play.textContent = "▶ Play"; play.setAttribute("aria-pressed", "false"); };
  const start = () => {
    state.playing = true;
    if (state.frame === take().frames.length - 1) go(0);
    play.textContent = "❚❚ Pause";
    play.setAttribute("aria-pressed", "true");
    playing = setInterval(() => state.frame === take().frames.length - 1 ? stop() : go(state.frame + 1), 1100);
    kept.stop = stop;
  };
  const goesOn = state.playing;
  if (kept.stop) kept.stop();
  stop();
  play.onclick = () => playing ? stop() : start();
  scrub.oninput = () => { stop(); go(Number(scrub.value)); };
  at("epsilon").max = epsilons.length - 1;
  at("epsilon").oninput = () => { state.epsilon = Number(at("epsilon").value); move(); };
  stage.onkeydown = (event) => {
    const jump = { ArrowLeft: state.frame - 1, ArrowRight: state.frame + 1, Home: 0, End: Infinity }[event.key];
    if (event.key === " ") { event.preventDefault(); play.click(); }
    if (jump === undefined) return;
    event.preventDefault();
    stop();
    go(jump);
  };
  const point = (event) => {
    const told = event.target.dataset && event.target.dataset.says;
    if (!told) { tip.hidden = true; return; }
    tip.replaceChildren(told);
    put(tip, event.clientX + 14, event.clientY + 14);
  };
  stage.onpointermove = point;
  stage.onpointerdown = point;
  stage.onpointerleave = () => { tip.hidden = true; };
  for (const [group, key] of [["modes", "mode"], ["views", "view"]]) for (const button of at(group).querySelectorAll("button")) {
    const set = () => { for (const each of at(group).querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.value === state[key])); };
    button.onclick = () => { state[key] = button.value; set(); move(); };
    set();
  }
  const opened = () => {
    const own = take();
    state.frame = Math.min(state.frame, own.frames.length - 1);
    scrub.max = own.frames.length - 1;
    at("ticks").replaceChildren(...own.frames.map((each) => make("i", { style: `--c:${colour(each.drawn)}`, title: `round ${each.round}: ${each.drawn}` })));
    const possible = own.frames.some((each) => each.tried);
    at("modes").hidden = !possible;
    if (!possible) state.mode = "happened";
    shownNow = null;
    move(true);
  };
  const select = (id, items, chosen, changed) => {
    const box = at(id).querySelector("select");
    box.replaceChildren(...items.map((text, k) => make("option", { value: k }, text)));
    box.value = chosen;
    box.onchange = () => { stop(); changed(Number(box.value)); };
    at(id).hidden = items.length < 2;
  };
  const servers = () => select("server", scene().takes.map((each) => each.rule), state.take, (k) => { state.take = k; state.picked = null; opened(); });
  state.scene = Math.min(state.scene, scenes.length - 1);
  state.take = Math.min(state.take, scene().takes.length - 1);
  select("scene", scenes.map((each) => each.title), state.scene, (k) => {
    const rule = take().rule;
    state.scene = k;
    state.take = Math.max(0, scene().takes.findIndex((each) => each.rule === rule));
    servers();
    opened();
  });
  servers();
  kept.resize = () => {
    W = Math.max(300, Math.min(760, stage.parentElement.clientWidth));
    H = Math.round(W * (W < 420 ? 0.95 : 0.68));
    stage.setAttribute("viewBox", `0 0 ${W} ${H}`);
    shownNow = null;
    move(true);
  };
  opened();
  kept.resize();
  if (goesOn) start();
};
