"use strict";
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  const make = (tag, text = "", properties = {}) =>
    Object.assign(document.createElement(tag), { textContent: text }, properties);
  root.classList.add("scripted");

  // Light and dark: what the system says, until the reader says otherwise.
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameTheme = () => ($("theme").textContent = isDark() ? "Light" : "Dark");
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  nameTheme();

  // The link of the section that is being read is marked.
  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        links.forEach((link) => link.removeAttribute("aria-current"));
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-20% 0px -70% 0px" },
  );
  all("main > section").forEach((part) => watch.observe(part));

  const layers = $("layer-data") ? layerTable(JSON.parse($("layer-data").textContent)) : null;
  if ($("graph-data")) graphs(JSON.parse($("graph-data").textContent));
  all("[data-find]").forEach((button) => {
    if (layers?.has(button.dataset.find)) button.addEventListener("click", () => layers.show(button.dataset.find));
    else button.replaceWith(make("b", button.textContent));
  });
  // A link with #layer-N leads to a layer, by its position in the order of execution.
  const follow = () => {
    const found = /^#layer-(\d+)$/.exec(location.hash);
    if (found && layers?.holds(Number(found[1]))) layers.open([Number(found[1])]);
  };
  addEventListener("hashchange", follow);
  follow();

  // The table of layers: only one page of rows is in the document, however many layers there are.
  function layerTable(data) {
    const PAGE = 100;
    const at = Object.fromEntries(data.fields.map((name, place) => [name, place]));
    const rows = data.rows.map((cells, position) => ({ cells, position }));
    const read = (row, name) => row.cells[at[name]];
    const table = $("layer-table");
    const heads = all("th button", table);
    const searched = ["tensor", "op", "qnn_op", "module", "source", "created_by", "method", "dtype"];
    const texts = rows.map((row) => searched.map((name) => read(row, name)).join("\n").toLowerCase());
    const state = { sort: data.sort, down: true, filter: "", words: [], page: 0, open: new Set(), target: -1 };
    let shown = rows;

    const signs = { made: "▲", inherited: "↓", "": "" };
    const steps = (v) => {
      if (v === null) return "–";
      if (v >= 1e6) return v.toExponential(1).replace("e+", "e");
      if (v > 0 && v < 0.05) return "<0.1";
      return v >= 100 || Math.abs(v - Math.round(v)) < 0.01 ? v.toFixed(0) : v.toFixed(1);
    };
    const decibels = (v) => (v === null ? "–" : typeof v === "string" ? v : v.toFixed(1).replace("-", "−"));
    const times = (v) => (v === "∞" ? v : steps(v));
    const percent = (v) => {
      if (v === null) return "–";
      return Math.abs(v) < 0.0005 ? "0 %" : `${(100 * v).toFixed(1).replace("-", "−")} %`;
    };
    const short = (op) => (op.split(".").length === 3 ? op.split(".")[1] : op);
    const show = {
      standing: (row) => signs[read(row, "standing")] + (read(row, "fused") ? "&" : ""),
      tensor: (row) => {
        const name = read(row, "tensor");
        return name.length > 26 ? name.replace("_default", "…") : name;
      },
      op: (row) => short(read(row, "op")),
      source: (row) => read(row, "source") || read(row, "created_by"),
      acc_steps: (row) => steps(read(row, "acc_steps")),
      acc_db: (row) => decibels(read(row, "acc_db")),
      local_steps: (row) => steps(read(row, "local_steps")),
      local_db: (row) => decibels(read(row, "local_db")),
      excess: (row) => times(read(row, "excess")),
      effect: (row) => percent(read(row, "effect")),
    };
    const columns = heads.map((head) => head.dataset.sort);
    const numeric = new Set(["acc_steps", "acc_db", "local_steps", "local_db", "excess", "inherited", "effect"]);

    // Larger is worse: a low SQNR counts as a large error; what was not compared comes last either way.
    const rank = (row, name) => {
      const value = read(row, name);
      if (name.endsWith("_db")) return value === "=" ? -1e9 : value === "NaN/∞" ? 1e9 : value === null ? null : -value;
      if (value === "∞") return Infinity;
      return name === "effect" && value !== null ? Math.abs(value) : value;
    };
    const ranks = { made: 2, inherited: 1, "": 0 };
    const order = (a, b) => {
      const name = state.sort;
      const sign = state.down ? -1 : 1;
      if (!name) return a.position - b.position;
      if (name === "standing") return sign * (ranks[read(a, name)] - ranks[read(b, name)]) || a.position - b.position;
      if (!numeric.has(name)) return -sign * show_text(a, name).localeCompare(show_text(b, name)) || a.position - b.position;
      const [x, y] = [rank(a, name), rank(b, name)];
      if (x === null || y === null) return (x === null) - (y === null) || a.position - b.position;
      return x === y ? a.position - b.position : sign * (x < y ? -1 : 1);
    };
    const show_text = (row, name) => (show[name] ? show[name](row) : String(read(row, name) ?? ""));
    const differs = (v) => v !== null && v !== "=";
    const passes = {
      "": () => true,
      made: (row) => read(row, "standing") === "made",
      inherited: (row) => read(row, "standing") === "inherited",
      differs: (row) => differs(read(row, "acc_db")) || differs(read(row, "local_db")),
      missing: (row) => Boolean(read(row, "reason")),
    };

    function refresh() {
      shown = rows.filter(
        (row) => passes[state.filter](row) && state.words.every((word) => texts[row.position].includes(word)),
      );
      shown.sort(order);
      state.page = Math.min(state.page, Math.max(Math.ceil(shown.length / PAGE) - 1, 0));
      draw();
    }
    function draw() {
      const start = state.page * PAGE;
      const body = document.createElement("tbody");
      for (const row of shown.slice(start, start + PAGE)) {
        body.append(line(row));
        if (state.open.has(row.position)) body.append(detail(row));
      }
      if (!shown.length) {
        const none = body.insertRow().insertCell();
        none.colSpan = columns.length;
        none.textContent = "No layer is like that.";
      }
      table.tBodies[0].replaceWith(body);
      for (const head of heads) {
        const on = head.dataset.sort === state.sort;
        if (on) head.parentNode.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else head.parentNode.removeAttribute("aria-sort");
      }
      $("status").textContent = `${shown.length} of ${rows.length} layers`;
      pager();
    }
    function line(row) {
      const tr = make("tr", "", { className: `row ${read(row, "standing")}${row.position === state.target ? " target" : ""}` });
      for (const name of columns) {
        const cell = tr.insertCell();
        const text = show_text(row, name);
        cell.className = numeric.has(name) ? `num ${name}` : name;
        cell.title = name === "op" || name === "tensor" ? read(row, name) : text;
        if (name === "tensor") {
          const open = state.open.has(row.position);
          const button = make("button", text, { type: "button", className: "link" });
          button.setAttribute("aria-expanded", open);
          cell.append(button);
        } else if (name === "module" || name === "source") cell.append(make("bdi", text));
        else cell.textContent = text;
      }
      tr.addEventListener("click", () => {
        state.open.has(row.position) ? state.open.delete(row.position) : state.open.add(row.position);
        draw();
      });
      return tr;
    }
    function detail(row) {
      const tr = make("tr", "", { className: "detail" });
      const cell = tr.insertCell();
      cell.colSpan = columns.length;
      const list = make("dl", "", { className: "pairs" });
      const facts = {
        position: row.position, "QNN op": read(row, "qnn_op"), op: read(row, "op"), method: read(row, "method"),
        partition: read(row, "partition"), shape: read(row, "shape"), module: read(row, "module"),
        source: read(row, "source"), "made by pass": read(row, "created_by"), "not compared": read(row, "reason"),
        encoding: read(row, "encoding"), "encoding of the graph": read(row, "reference_encoding"),
        "noise floor (RMS)": read(row, "floor"), "accumulated × floor": read(row, "inherited"),
        "largest error, accumulated": read(row, "acc_max"), "largest error, local": read(row, "local_max"),
        "cosine, accumulated": read(row, "acc_cosine"), "cosine, local": read(row, "local_cosine"),
        fused: read(row, "fused") ? "with the op behind it; the HTP does not clip here" : "",
      };
      for (const [name, value] of Object.entries(facts)) {
        if (value === "" || value === null) continue;
        const pair = make("div");
        pair.append(make("dt", name), make("dd", String(value)));
        list.append(pair);
      }
      cell.append(list);
      return tr;
    }
    function pager() {
      const pages = Math.ceil(shown.length / PAGE);
      const turn = (text, page, off) => {
        const button = make("button", text, { type: "button", disabled: off });
        button.addEventListener("click", () => {
          state.page = page;
          draw();
          $("layers").scrollIntoView();
        });
        return button;
      };
      $("pager").replaceChildren();
      if (pages < 2) return;
      const first = state.page * PAGE;
      $("pager").append(
        make("span", `${first + 1}–${Math.min(first + PAGE, shown.length)} of ${shown.length}`),
        turn("First", 0, state.page === 0),
        turn("Previous", state.page - 1, state.page === 0),
        turn("Next", state.page + 1, state.page === pages - 1),
        turn("Last", pages - 1, state.page === pages - 1),
      );
    }
    function choose(filter) {
      state.filter = filter;
      all("[data-filter]").forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.filter === filter)));
    }
    function find(words, targets) {
      choose("");
      $("search").value = words;
      state.words = words.toLowerCase().split(/\s+/).filter(Boolean);
      state.page = 0;
      state.target = targets.length === 1 ? targets[0] : -1;
      if (targets.length === 1) state.open.add(targets[0]);
      refresh();
      $("layers").scrollIntoView();
    }

    for (const head of heads) {
      head.addEventListener("click", () => {
        state.down = state.sort === head.dataset.sort ? !state.down : true;
        state.sort = head.dataset.sort;
        state.page = 0;
        refresh();
      });
    }
    let typing = 0;
    $("search").addEventListener("input", (event) => {
      clearTimeout(typing);
      typing = setTimeout(() => {
        state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
        state.page = 0;
        refresh();
      }, 80);
    });
    all("[data-filter]").forEach((chip) =>
      chip.addEventListener("click", () => {
        choose(chip.dataset.filter);
        state.page = 0;
        refresh();
      }),
    );
    refresh();
    const named = (tensor) => rows.filter((row) => read(row, "tensor") === tensor).map((row) => row.position);
    return {
      has: (tensor) => named(tensor).length > 0,
      holds: (position) => position < rows.length,
      show: (tensor) => find(tensor, named(tensor)),
      // One layer by its name; several, as of a module, by the path that they share.
      open: (positions) => {
        const found = positions.map((position) => rows[position]);
        const paths = found.map((row) => read(row, "module").split("."));
        const shared = paths.reduce((one, other) => {
          const parts = one.findIndex((part, depth) => part !== other[depth]);
          return parts < 0 ? one : one.slice(0, parts);
        });
        const deeper = paths.every((path) => path.length > shared.length);
        if (positions.length === 1 || !shared.join("")) find(read(found[0], "tensor"), [positions[0]]);
        else find(shared.join(".") + (deeper ? "." : ""), positions);
      },
    };
  }

  // Drawn graphs: the wheel, the buttons and the keys change the view box; a box leads to its layer.
  function graphs(boxes) {
    const frames = all(".frame");
    const views = frames.map((frame, number) => canvas(frame, boxes[number], number));
    const current = () => Number($("view")?.value ?? 0);
    $("view")?.addEventListener("change", () => {
      frames.forEach((frame, number) => (frame.hidden = number !== current()));
      views[current()].start();
    });
    all("[data-zoom]").forEach((button) =>
      button.addEventListener("click", () => {
        const view = views[current()];
        if (button.dataset.zoom === "fit") view.fit();
        else view.zoom(button.dataset.zoom === "in" ? 0.75 : 1 / 0.75);
      }),
    );
  }
  function canvas(frame, boxes, number) {
    const svg = frame.querySelector("svg");
    const nothing = { fit() {}, start() {}, zoom() {} };
    if (!svg) return nothing;
    const whole = svg.viewBox.baseVal;
    const home = [whole.x, whole.y, whole.width, whole.height];
    let box = [...home];
    const set = (next) => {
      box = next;
      svg.setAttribute("viewBox", box.map((v) => v.toFixed(2)).join(" "));
    };
    // Pixels a point: a small graph is not blown up, and a long one starts readable at its top.
    const LARGEST = 1.5;
    const READABLE = 0.7;
    const scaled = (scale, top) => {
      const [width, height] = [frame.clientWidth / scale, frame.clientHeight / scale];
      set([home[0] + (home[2] - width) / 2, top ? home[1] : home[1] + (home[3] - height) / 2, width, height]);
    };
    const whole_scale = () => Math.min(frame.clientWidth / home[2], frame.clientHeight / home[3], LARGEST);
    const fit = () => (frame.clientWidth ? scaled(whole_scale(), false) : set([...home]));
    const start = () => (!frame.clientWidth || whole_scale() >= READABLE ? fit() : scaled(READABLE + 0.15, true));
    const zoom = (factor, x = 0.5, y = 0.5) => {
      const width = Math.min(Math.max(box[2] * factor, 60), home[2] * 4 + 4000);
      const height = (width / box[2]) * box[3];
      set([box[0] + (box[2] - width) * x, box[1] + (box[3] - height) * y, width, height]);
    };
    const move = (dx, dy) => set([box[0] + dx * box[2], box[1] + dy * box[3], box[2], box[3]]);
    frame.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== frame) return; // the page scrolls
      event.preventDefault();
      const area = frame.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, (event.clientX - area.x) / area.width, (event.clientY - area.y) / area.height);
    }, { passive: false });
    frame.addEventListener("keydown", (event) => {
      const keys = { "+": () => zoom(0.8), "=": () => zoom(0.8), "-": () => zoom(1.25), 0: fit,
        ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0), ArrowUp: () => move(0, -0.1), ArrowDown: () => move(0, 0.1) };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    let held = null;
    frame.addEventListener("pointerdown", (event) => (held = { x: event.clientX, y: event.clientY, moved: false }));
    addEventListener("pointermove", (event) => {
      if (!held) return;
      const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.moved && Math.hypot(dx, dy) < 4) return;
      const scale = Math.max(box[2] / frame.clientWidth, box[3] / frame.clientHeight);
      held = { x: event.clientX, y: event.clientY, moved: true };
      frame.classList.add("held");
      set([box[0] - dx * scale, box[1] - dy * scale, box[2], box[3]]);
    });
    addEventListener("pointerup", () => {
      if (held?.moved) frame.dataset.dragged = "yes"; // the click that follows opens nothing
      held = null;
      frame.classList.remove("held");
    });
    frame.addEventListener("click", () => delete frame.dataset.dragged);
    boxes.forEach((positions, place) => {
      const node = document.getElementById(`v${number}-${place}`);
      if (!node || !positions.length || !layers) return;
      node.classList.add("linked");
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "button");
      const open = () => frame.dataset.dragged || layers.open(positions);
      node.addEventListener("click", open);
      node.addEventListener("keydown", (event) => event.key === "Enter" && open());
    });
    start();
    return { fit, start, zoom };
  }
})();
