// Tables that stand in the page as a whole: titles sort, chips and words filter, and long ones begin short.
(() => {
  const SHORT = 100;
  const all = (query, within) => [...within.querySelectorAll(query)];
  for (const box of document.querySelectorAll("[data-sortable]")) {
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const rows = all("tr", body);
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const heads = all("th button", table);
    const status = box.querySelector("output");
    const more = box.querySelector("button[data-more]");
    const state = { column: -1, down: true, kind: "", words: [], whole: rows.length <= SHORT };

    const value = (row, column) => {
      const cell = row.cells[column];
      if (!cell.classList.contains("num")) return cell.textContent.toLowerCase();
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    };
    const order = (x, y) => {
      if (state.column < 0) return x - y;
      const [a, b] = [value(rows[x], state.column), value(rows[y], state.column)];
      if (a === null || b === null) return (a === null) - (b === null) || x - y; // no number comes last
      return a === b ? x - y : (a < b ? -1 : 1) * (state.down ? -1 : 1);
    };
    const refresh = () => {
      const found = rows
        .map((_, place) => place)
        .filter((place) => !state.kind || rows[place].dataset.kind === state.kind)
        .filter((place) => state.words.every((word) => texts[place].includes(word)))
        .sort(order);
      const shown = state.whole ? found : found.slice(0, SHORT);
      body.replaceChildren(...shown.map((place) => rows[place]));
      heads.forEach((head, column) => {
        if (column === state.column) head.parentNode.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else head.parentNode.removeAttribute("aria-sort");
      });
      if (status) status.textContent = `${found.length} of ${rows.length}`;
      more.hidden = shown.length === found.length;
      more.textContent = `Show all ${found.length}`;
    };

    heads.forEach((head, column) =>
      head.addEventListener("click", () => {
        const numeric = head.parentNode.classList.contains("num");
        state.down = state.column === column ? !state.down : numeric; // words begin with a
        state.column = column;
        refresh();
      }),
    );
    all("[data-kind-filter]", box).forEach((chip, _, chips) =>
      chip.addEventListener("click", () => {
        state.kind = chip.dataset.kindFilter;
        chips.forEach((other) => other.setAttribute("aria-pressed", String(other === chip)));
        refresh();
      }),
    );
    box.querySelector("input")?.addEventListener("input", (event) => {
      state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      refresh();
    });
    more.addEventListener("click", () => {
      state.whole = true;
      refresh();
    });
    refresh();
  }
})();
