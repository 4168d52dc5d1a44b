// Tables: a click on a column header sorts, typing filters, and only the first 25 rows are shown at first.
// Without scripts the page shows the complete, plain tables.
(function () {
  'use strict';

  function value(row, column) {
    const cell = row.cells[column];
    const v = cell.dataset.v;
    if (v === undefined) return cell.textContent.trim().toLowerCase();
    return v === '' ? NaN : Number(v);
  }

  // Unknown values (NaN) come last in both directions.
  function compare(a, b, sign) {
    if (typeof a === 'number' && typeof b === 'number') {
      if (Number.isNaN(a)) return Number.isNaN(b) ? 0 : 1;
      if (Number.isNaN(b)) return -1;
      return sign * (a - b);
    }
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  }

  function sortBy(table, column) {
    const heads = table.tHead.rows[0].cells;
    const head = heads[column];
    const numeric = head.classList.contains('n') || head.classList.contains('share');
    const now = head.getAttribute('aria-sort');
    const next = now ? (now === 'descending' ? 'ascending' : 'descending') : numeric ? 'descending' : 'ascending';
    for (const h of heads) h.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', next);
    const sign = next === 'ascending' ? 1 : -1;
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, (row, i) => ({ row, i, v: value(row, column) }));
    rows.sort((a, b) => compare(a.v, b.v, sign) || a.i - b.i);
    body.append(...rows.map((r) => r.row));
  }

  function addHeads(table) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      button.addEventListener('click', () => sortBy(table, column));
      head.replaceChildren(button);
    });
  }

  function addTools(table) {
    const rows = table.tBodies[0].rows;
    const many = rows.length > 25;
    const tools = document.createElement('div');
    tools.className = 'tools';
    const input = document.createElement('input');
    input.type = 'search';
    input.placeholder = 'Filter ' + (table.dataset.what || 'rows');
    input.setAttribute('aria-label', input.placeholder);
    const count = document.createElement('span');
    const all = document.createElement('button');
    all.type = 'button';
    let short = many;
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let hits = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const hit = words.every((w) => text.includes(w));
        row.classList.toggle('gone', !hit);
        if (hit) hits++;
      }
      table.classList.toggle('short', short && words.length === 0);
      const shown = short && words.length === 0 ? Math.min(25, hits) : hits;
      count.textContent = shown + ' of ' + rows.length;
      all.textContent = short ? 'Show all' : 'Show 25';
      all.hidden = !many || words.length > 0;
    };
    input.addEventListener('input', show);
    all.addEventListener('click', () => { short = !short; show(); });
    tools.append(input, count, all);
    table.closest('.scroll').before(tools);
    show();
  }

  for (const table of document.querySelectorAll('table[data-sort]')) {
    addHeads(table);
    if (table.dataset.sort === 'filter') addTools(table);
    table.tBodies[0].addEventListener('click', (e) => {
      const row = e.target.closest('tr');
      if (row && e.target.closest('.full')) row.classList.toggle('open');
    });
  }
})();
