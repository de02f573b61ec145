// Draws the fabrics, and makes tables sortable. Everything that comes from the plan becomes text, never markup.
"use strict";

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    name === "class" ? (element.className = value) : name.startsWith("on") ? (element[name] = value) : element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const grouped = new Intl.NumberFormat("en");

// --- Tables -------------------------------------------------------------------------------------------------------

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.onclick = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const number = head.classList.contains("number");
      const key = (row) => (number ? parseFloat(row.cells[place].dataset.key) : row.cells[place].textContent);
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => {
        if (!number) return a.localeCompare(b, "en", { numeric: true }) * (down ? -1 : 1);
        if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b); // what is unknown stays last
        return (a - b) * (down ? -1 : 1);
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    };
  });
}

function tableOf(title, headings, rows) {
  const numbers = headings.map((_, place) => rows.some((row) => typeof row[place] === "number"));
  const cell = (value, place) => {
    const made = make("td", numbers[place] ? { class: "number" } : {}, typeof value === "number" ? grouped.format(value) : value ?? "");
    if (typeof value === "number") made.dataset.key = value;
    return made;
  };
  const head = make("thead", {}, make("tr", {}, ...headings.map((text, place) => make("th", { scope: "col", ...(numbers[place] && { class: "number" }) }, text))));
  const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell))));
  const table = make("table", {}, head, body);
  sortable(table);
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, table);
  return make("figure", { class: "table" }, make("figcaption", {}, title), scroll);
}

// --- Fabrics ------------------------------------------------------------------------------------------------------

class Fabric {
  constructor(view, room, palette) {
    Object.assign(this, { view, room, palette });
    const { nodes, links } = view;
    this.linksOf = nodes.name.map(() => []);
    links.a.forEach((node, link) => this.linksOf[node].push(link));
    links.b.forEach((node, link) => this.linksOf[node].push(link));
    const role = (node) => view.roles[nodes.role[node]];
    const hosts = new Set(["compute", "storage", "management", "aggregation"]);
    this.inner = links.a.map((a, link) => !hosts.has(role(a)) && !hosts.has(role(links.b[link])));
    this.shade(0);
  }

  // Load of each link beside the mean of those between switches that carry any; a slow link is the busier for it.
  shade(number) {
    const { links, loads } = this.view;
    const load = loads[number];
    const fastest = links.rate.reduce((most, rate) => Math.max(most, rate), 1);
    const busy = links.rate.map((rate, link) => (load ? (Math.max(load.ab[link], load.ba[link]) / rate) * fastest : NaN));
    const used = busy.filter((value, link) => this.inner[link] && value > 0);
    const mean = used.reduce((sum, value) => sum + value, 0) / used.length || 1;
    this.load = load;
    this.busy = busy.map((value) => value / mean);
    this.fullest = this.busy.reduce((most, value, link) => (this.inner[link] ? Math.max(most, value) : most), 0);
  }

  colour(busy, style) {
    if (isNaN(busy)) return style.plain;
    if (busy === 0) return style.unused;
    const [, colour] = this.palette.loads.find(([most]) => most === null || busy <= most);
    return colour === this.palette.plain ? style.plain : colour;
  }

  busiest(links) {
    return links.reduce((most, link) => (isNaN(this.busy[link]) ? NaN : Math.max(most, this.busy[link])), 0);
  }

  nodePanel(node) {
    const { nodes, links, models, parts, roles } = this.view;
    const about = [roles[nodes.role[node]], models[nodes.model[node]]].filter(Boolean);
    const device = this.room && nodes.device[node] >= 0 ? this.room.devices[nodes.device[node]] : null;
    if (device) about.push(`rack ${this.room.racks[device[2]][0]}, unit ${device[3]}`);
    const rows = this.linksOf[node].map((link) => {
      const [near, far] = links.a[link] === node ? ["a", "b"] : ["b", "a"];
      const [out, back] = near === "a" ? ["ab", "ba"] : ["ba", "ab"];
      const port = (end) => links[`${end}_label`][link] || String(links[`${end}_port`][link]);
      const other = links[far][link];
      return [port(near), nodes.name[other], port(far), parts[links.part[link]] ?? "", links.length[link],
        ...(this.load ? [this.load[out][link], this.load[back][link]] : [links.rate[link]])];
    });
    const last = this.load ? [`sends (${this.load.unit})`, `receives (${this.load.unit})`] : ["Gb/s"];
    const title = `${rows.length} ${rows.length === 1 ? "cable" : "cables"} of ${nodes.name[node]}`;
    return [make("h4", {}, nodes.name[node]), make("p", {}, about.join(", ")),
      tableOf(title, ["port", "other end", "its port", "part", "m", ...last], rows)];
  }
}

class Drawing {
  constructor(fabric, canvas, chosen) {
    Object.assign(this, { fabric, canvas, chosen, selected: -1, least: 0 });
    const { picture } = fabric.view;
    this.curves = picture.curves.map(([path, links]) => [new Path2D(path), links]);
    this.cellOf = {};
    picture.cells.forEach((cell, place) => cell[5].forEach((node) => (this.cellOf[node] = place)));
    this.hostAt = [];
    for (const [left, top, pitch, columns, nodes] of picture.hosts)
      nodes.forEach((node, n) => this.hostAt.push([left + (n % columns + 0.5) * pitch, top + (Math.floor(n / columns) + 0.5) * pitch, node]));
    this.fit();
    new ResizeObserver(() => (this.scale ? this.draw() : this.fit())).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    matchMedia("print").addEventListener("change", ({ matches }) => { // paper has another width, and light colours
      if (matches) this.kept = [this.scale, this.x, this.y];
      if (matches) this.fit();
      else [this.scale, this.x, this.y] = this.kept;
      this.paint();
    });
    this.listen();
  }

  fit() {
    const { width, height } = this.fabric.view.picture;
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth) return;
    this.scale = Math.min((clientWidth - 24) / width, (clientHeight - 24) / height, 1.5);
    this.x = (clientWidth - width * this.scale) / 2;
    this.y = (clientHeight - height * this.scale) / 2;
    this.draw();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(Math.max(this.scale * factor, 0.01), 12);
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  show(node) {
    const { picture } = this.fabric.view;
    const cell = picture.cells[this.cellOf[node]];
    const host = this.hostAt.find(([, , other]) => other === node);
    const at = cell ? [cell[0] + cell[2] / 2, cell[1] + cell[3] / 2] : host;
    this.selected = node;
    if (at) {
      this.scale = Math.max(this.scale, 0.8);
      this.x = this.canvas.clientWidth / 2 - at[0] * this.scale;
      this.y = this.canvas.clientHeight / 2 - at[1] * this.scale;
    }
    this.draw();
  }

  at(x, y) {
    const [px, py] = [(x - this.x) / this.scale, (y - this.y) / this.scale];
    const cell = this.fabric.view.picture.cells.find(([left, top, wide, high]) => px >= left && px <= left + wide && py >= top && py <= top + high);
    if (cell) return cell[5][Math.min(Math.floor(((px - cell[0]) / cell[2]) * cell[5].length), cell[5].length - 1)];
    const near = this.hostAt.find(([hx, hy]) => Math.abs(px - hx) < 4 && Math.abs(py - hy) < 4);
    return near ? near[2] : -1;
  }

  listen() {
    const { canvas } = this;
    const pointers = {};
    let moved = 0;
    canvas.onpointerdown = (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers[event.pointerId] = event;
      moved = 0;
    };
    canvas.onpointermove = (event) => {
      const before = pointers[event.pointerId];
      if (!before) return;
      const others = Object.values(pointers).filter((other) => other.pointerId !== event.pointerId);
      const [dx, dy] = [event.offsetX - before.offsetX, event.offsetY - before.offsetY];
      moved += Math.abs(dx) + Math.abs(dy);
      if (others.length) {
        const far = (one) => Math.hypot(one.offsetX - others[0].offsetX, one.offsetY - others[0].offsetY) || 1;
        this.zoom(far(event) / far(before), event.offsetX, event.offsetY);
      } else {
        this.x += dx;
        this.y += dy;
        this.draw();
      }
      pointers[event.pointerId] = event;
    };
    canvas.onpointerup = (event) => {
      delete pointers[event.pointerId];
      if (moved < 5) this.chosen(this.at(event.offsetX, event.offsetY));
    };
    canvas.onpointercancel = (event) => delete pointers[event.pointerId];
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== canvas && !event.ctrlKey) return; // the page scrolls until the map is in use
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.onkeydown = (event) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (event.key === "+" || event.key === "=") this.zoom(1.3);
      else if (event.key === "-") this.zoom(1 / 1.3);
      else if (event.key === "0") this.fit();
      else if (step) { this.x += step[0]; this.y += step[1]; this.draw(); }
      else return;
      event.preventDefault();
    };
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const { canvas, fabric, selected, least, scale } = this;
    const { picture, nodes, links, roles } = fabric.view;
    const dots = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * dots;
    canvas.height = canvas.clientHeight * dots;
    const css = getComputedStyle(document.documentElement);
    const style = Object.fromEntries(["ink", "quiet", "paper", "ground", "edge", "switch", "plain", "unused", "link"].map((name) => [name, css.getPropertyValue(`--${name}`).trim()]));
    const pen = canvas.getContext("2d");
    pen.setTransform(scale * dots, 0, 0, scale * dots, this.x * dots, this.y * dots);
    pen.font = "10px Helvetica, Arial, sans-serif";
    for (const [x, y, wide, high] of picture.areas) {
      pen.fillStyle = style.ground;
      pen.strokeStyle = style.edge;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.roundRect(x, y, wide, high, 5);
      pen.fill();
      pen.stroke();
    }
    const mine = new Set(selected >= 0 ? fabric.linksOf[selected] : []);
    this.drawn = 0;
    const stroke = (numbers, path) => {
      const shown = numbers.filter((link) => !(fabric.busy[link] < least * fabric.fullest));
      if (!shown.length) return;
      const own = selected < 0 || shown.some((link) => mine.has(link));
      this.drawn += shown.length;
      pen.globalAlpha = own ? (path ? 0.9 : 0.55) : 0.08;
      pen.lineWidth = selected >= 0 && own ? 2.2 : path ? 2 : 1;
      pen.strokeStyle = fabric.colour(fabric.busiest(own && selected >= 0 ? shown.filter((link) => mine.has(link)) : shown), style);
      path ? pen.stroke(path) : pen.stroke();
    };
    for (const [x1, y1, x2, y2, numbers] of picture.lines) {
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      stroke(numbers);
    }
    for (const [path, numbers] of this.curves) stroke(numbers, path);
    pen.globalAlpha = 1;
    for (const [x, y, wide, high, upright, members, lines] of picture.cells) {
      const chosen = members.includes(selected);
      pen.fillStyle = style.switch;
      pen.strokeStyle = chosen ? style.link : style.plain;
      pen.lineWidth = chosen ? 3 : 1;
      pen.beginPath();
      pen.roundRect(x, y, wide, high, 3);
      pen.fill();
      pen.stroke();
      if (scale < 0.35) continue; // too small to be read
      pen.save();
      pen.translate(x + wide / 2, y + high / 2);
      if (upright) pen.rotate(-Math.PI / 2);
      pen.fillStyle = style.ink;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      lines.forEach((text, n) => pen.fillText(text, 0, (n - (lines.length - 1) / 2) * 12, (upright ? high : wide) - 4));
      pen.restore();
    }
    for (const [x, y, node] of this.hostAt) {
      pen.fillStyle = fabric.palette.hosts[roles[nodes.role[node]]] ?? style.plain;
      pen.beginPath();
      pen.arc(x, y, node === selected ? 4.5 : 2.2, 0, 7);
      pen.fill();
    }
    pen.fillStyle = style.quiet;
    for (const [x, y, text] of picture.captions) pen.fillText(text, x, y);
    canvas.dataset.drawn = this.drawn;
  }
}

const swatch = (colour) => drawn("svg", { "aria-hidden": "true" }, drawn("rect", { width: 22, height: 4, y: 3, fill: colour }));

let counter = 0;

function showFabrics(section, plan, palette) {
  const id = `map-${counter++}`;
  const fabrics = plan.views.map((view) => new Fabric(view, plan.room, palette));
  const option = (text, value) => make("option", { value }, text);
  const which = make("select", {}, ...plan.views.map((view, number) => option(view.name, number)));
  const load = make("select", {});
  const search = make("input", { type: "search", list: `${id}-names`, placeholder: "switch or server", size: "18" });
  const names = make("datalist", { id: `${id}-names` });
  const least = make("input", { type: "range", min: "0", max: "1", step: "0.01", value: "0" });
  const words = make("span", {});
  const canvas = make("canvas", { class: "map", tabindex: "0", role: "img" });
  const panel = make("div", { class: "panel", "aria-live": "polite" });
  const legend = make("div", { class: "legend" });
  const button = (text, name, act) => make("button", { class: "tool", type: "button", "aria-label": name, onclick: act }, text);
  let map;

  const choose = (node) => {
    map.selected = node;
    map.draw();
    panel.replaceChildren(...(node >= 0 ? map.fabric.nodePanel(node) : [make("p", {}, "Choose a switch or a server in the drawing, or search for its name, to see its cables.")]));
  };
  const filter = () => {
    map.least = Number(least.value);
    const { fullest, busy, inner } = map.fabric;
    const count = busy.filter((value, link) => inner[link] && !(value < map.least * fullest)).length;
    words.textContent = map.fabric.load ? `${Math.round(map.least * 100)} % of the fullest: ${grouped.format(count)} links between switches` : "no load is known";
    map.draw();
  };
  const open = () => {
    const fabric = fabrics[which.value];
    canvas.setAttribute("aria-label", `Drawing of ${fabric.view.name}. Arrow keys move it, plus and minus zoom, 0 shows all of it; the search beside it finds switches by name.`);
    load.replaceChildren(...fabric.view.loads.map(({ unit }, number) => option(unit, number)));
    names.replaceChildren(...fabric.view.nodes.name.map((name) => make("option", { value: name })));
    const old = map;
    map = new Drawing(fabric, canvas, choose);
    if (old) map.fit();
    fabric.shade(0);
    choose(-1);
    filter();
  };
  which.onchange = open;
  load.onchange = () => { map.fabric.shade(Number(load.value)); filter(); choose(map.selected); };
  least.oninput = filter;
  search.onchange = () => {
    const node = map.fabric.view.nodes.name.indexOf(search.value.trim());
    if (node >= 0) { choose(node); map.show(node); }
    else panel.replaceChildren(make("p", {}, `Nothing is named ${search.value.slice(0, 80)}.`));
  };
  const tools = make("div", { class: "tools" },
    ...(plan.views.length > 1 ? [make("label", {}, "subnet", which)] : []),
    make("label", {}, "colour by", load), make("label", {}, "hide links below", least, words),
    make("label", {}, "find", search), names,
    make("span", {}, button("+", "zoom in", () => map.zoom(1.3)), " ", button("\u2212", "zoom out", () => map.zoom(1 / 1.3)), " ", button("all", "show all", () => map.fit())));
  legend.append(make("span", {}, "load of a link (its busier direction), in times of the mean:"), ...palette.loads.map(([most, colour, text]) => make("span", {}, swatch(colour === palette.plain ? "var(--plain)" : most === 0 ? "var(--unused)" : colour), text)));
  section.append(tools, canvas, legend, panel);
  open();
}

// --- Racks --------------------------------------------------------------------------------------------------------

function drawn(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A picture that Heddle drew: its texts are escaped, and it is read as XML, in which no script of a name survives.
const picture = (svg) => document.importNode(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement, true);

function showRoom(section, room) {
  const inside = room.racks.map(() => []);
  for (const [name, model, rack, unit, units] of room.devices) inside[rack].push([unit, units, name, model]);
  const choice = make("select", {}, ...room.racks.map(([name], rack) => make("option", { value: rack }, name)));
  const panel = make("div", { class: "panel", "aria-live": "polite" });
  const plan = picture(room.floor);
  const boxes = room.racks.map((_, rack) => plan.querySelector(`[data-rack="${rack}"]`));
  boxes.forEach((box, rack) => (box.onclick = () => { choice.value = rack; show(); }));
  const show = () => {
    const rack = Number(choice.value);
    boxes.forEach((box, other) => box.classList.toggle("chosen", other === rack));
    const [name, row, place, power] = room.racks[rack];
    const devices = inside[rack].sort((a, b) => b[0] - a[0]);
    const used = devices.reduce((sum, [, units]) => sum + units, 0);
    panel.replaceChildren(make("p", {}, `Row ${row + 1}, place ${place + 1}; ${used} of ${room.rack_units} units; ${power}.`),
      make("div", { class: "beside" }, make("div", { class: "rack" }, picture(room.fronts[rack])),
        tableOf(`Rack ${name}, from above`, ["lowest unit", "units", "device", "model"], devices)));
  };
  choice.onchange = show;
  section.append(make("p", {}, `${grouped.format(room.racks.length)} racks of ${room.rack_units} units hold ${grouped.format(room.devices.length)} devices.`),
    make("div", { class: "floor", tabindex: "0", role: "group", "aria-label": "Floor plan" }, plan),
    make("div", { class: "tools" }, make("label", {}, "rack", choice)), panel);
  show();
}

// --- Begin --------------------------------------------------------------------------------------------------------

// What a simulation carried is a load of the fabrics that have its channels.
function addLoad({ name, channels }, plans) {
  for (const { nodes, links, loads } of plans.flatMap((plan) => plan.views)) {
    const ends = (end) => links[end].map((node, link) => `${nodes.name[node]}:${links[`${end}_port`][link]}`);
    const [a, b] = [ends("a"), ends("b")];
    const carried = (from, to) => from.map((end, link) => channels[`${end} -> ${to[link]}`] ?? 0);
    const [ab, ba] = [carried(a, b), carried(b, a)];
    if ([...ab, ...ba].some(Boolean)) loads.push({ unit: `bytes of ${name}`, ab, ba });
  }
}

async function begin() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
  const data = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  const { plans, simulations } = data.report;
  for (const simulation of simulations) addLoad(simulation, plans);
  document.querySelectorAll("main table").forEach(sortable);
  document.querySelectorAll(".fabrics").forEach((section) => showFabrics(section, plans[section.dataset.plan], data.palette));
  document.querySelectorAll(".room").forEach((section) => showRoom(section, plans[section.dataset.plan].room));
  document.documentElement.dataset.ready = "yes";
}

begin();
