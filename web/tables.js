// Tables: every header sorts, typing filters, columns can be hidden, and the rows shown can be copied as CSV.
// Only the first 25 rows are shown at first; the filter of a small table opens with a button. Without scripts the page
// shows the complete, plain tables.
(function () {
  'use strict';
  const FIRST_ROWS = 25, FILTER_FROM = 8;
  const UNITS = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, µ: 1e-6, u: 1e-6, m: 1e-3, n: 1e-9, K: 1024 };

  // "1,234.5 ms", "12.3%", "4.2x", "3.1 GB": a number that sorts. NaN: a dash.
  function parse(text) {
    const match = /^[^\d-]*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([kMGTPµumnK]?)/.exec(text);
    return match ? Number(match[1].replaceAll(',', '')) * (UNITS[match[2]] || 1) : NaN;
  }
  const isNumeric = (head) => head.classList.contains('n') || head.classList.contains('share');

  function value(row, column, numeric) {
    const cell = row.cells[column], v = cell.dataset.v;
    if (v !== undefined) return v === '' ? NaN : Number(v);
    return numeric ? parse(cell.textContent.trim()) : cell.textContent.trim().toLowerCase();
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
    const heads = table.tHead.rows[0].cells, head = heads[column], numeric = isNumeric(head);
    const now = head.getAttribute('aria-sort');
    const next = now ? (now === 'descending' ? 'ascending' : 'descending') : numeric ? 'descending' : 'ascending';
    for (const h of heads) h.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', next);
    const sign = next === 'ascending' ? 1 : -1, body = table.tBodies[0];
    const rows = Array.from(body.rows, (row, i) => ({ row, i, v: value(row, column, numeric) }));
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

  const makeButton = (text, act) => {
    const b = document.createElement('button');
    b.type = 'button';
    b.textContent = text;
    b.addEventListener('click', act);
    return b;
  };

  function addFilter(table, tools) {
    const rows = table.tBodies[0].rows, many = rows.length > FIRST_ROWS;
    const input = document.createElement('input');
    input.type = 'search';
    input.placeholder = 'Filter ' + (table.dataset.what || 'rows');
    input.setAttribute('aria-label', input.placeholder);
    const count = document.createElement('span');
    let short = many;
    const show = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let hits = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase(), hit = words.every((w) => text.includes(w));
        row.classList.toggle('gone', !hit);
        if (hit) hits++;
      }
      table.classList.toggle('short', short && words.length === 0);
      count.textContent = (short && words.length === 0 ? Math.min(FIRST_ROWS, hits) : hits) + ' of ' + rows.length;
      all.textContent = short ? 'Show all' : 'Show ' + FIRST_ROWS;
      all.hidden = !many || words.length > 0;
    };
    const all = makeButton('', () => { short = !short; show(); });
    input.addEventListener('input', show);
    show();
    if (rows.length >= FILTER_FROM) { tools.append(input, count, all); return; }
    input.hidden = count.hidden = true;
    const open = makeButton('Filter', () => {
      input.hidden = count.hidden = !input.hidden;
      open.setAttribute('aria-expanded', String(!input.hidden));
      if (input.hidden) { input.value = ''; show(); } else input.focus();
    });
    open.setAttribute('aria-expanded', 'false');
    tools.append(input, count, open);
  }

  // ---- columns: a style sheet per table hides them
  let tables = 0;
  function addColumns(table, tools) {
    const heads = Array.from(table.tHead.rows[0].cells), hidden = new Set();
    let chosen = false, printing = false; // chosen: the reader has used a check box
    const style = document.createElement('style');
    table.id ||= 'table-' + ++tables;
    const box = document.createElement('details'), summary = document.createElement('summary');
    const list = document.createElement('div');
    box.className = 'columns';
    box.append(summary, list);
    const boxes = heads.map((head, i) => {
      const label = document.createElement('label'), input = document.createElement('input');
      input.type = 'checkbox';
      input.disabled = i === 0;
      input.addEventListener('change', () => { chosen = true; input.checked ? hidden.delete(i) : hidden.add(i); apply(); });
      label.append(input, ' ' + head.textContent);
      label.title = head.title;
      list.append(label);
      return input;
    });
    function apply() {
      style.textContent = Array.from(hidden, (i) => '#' + table.id + ' tr > :nth-child(' + (i + 1) + ') { display: none; }').join('\n');
      boxes.forEach((b, i) => { b.checked = !hidden.has(i); });
      summary.textContent = 'Columns: ' + (heads.length - hidden.size) + ' of ' + heads.length;
    }
    // Leaves out the last columns until the table fits; they come back with the check boxes.
    function fit() {
      hidden.clear();
      apply();
      const room = table.closest('.scroll');
      for (let i = heads.length - 1; i > 1 && room.clientWidth > 600 && table.scrollWidth > room.clientWidth; i--) {
        hidden.add(i);
        apply();
      }
      box.hidden = heads.length < 5;
    }
    document.head.append(style);
    tools.append(box);
    fit();
    let width = innerWidth;
    addEventListener('resize', () => { if (innerWidth !== width && !printing) { width = innerWidth; chosen = false; fit(); } });
    // Paper has room for all columns, in small print.
    addEventListener('beforeprint', () => { printing = true; if (!chosen) { hidden.clear(); apply(); } });
    addEventListener('afterprint', () => { printing = false; if (!chosen) fit(); });
    return hidden;
  }

  // ---- CSV of the rows and columns shown
  const quote = (text) => (/[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
  function csvOf(table, hidden) {
    const cells = (row) => Array.from(row.cells).filter((c, i) => !hidden.has(i));
    const text = (cell) => (cell.dataset.v !== undefined ? cell.dataset.v : cell.innerText.split('\n')[0].trim());
    const rows = Array.from(table.tBodies[0].rows).filter((row) => row.offsetParent !== null);
    const lines = [cells(table.tHead.rows[0]).map((c) => quote(c.textContent.trim())).join(',')];
    for (const row of rows) lines.push(cells(row).map((c) => quote(text(c))).join(','));
    return lines.join('\n') + '\n';
  }
  // The clipboard interface needs a secure page; a file opened from the disk is none in some browsers.
  function copyText(text) {
    if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
    return Promise.resolve();
  }
  function addCopy(table, tools, hidden) {
    const copy = makeButton('Copy as CSV', () => {
      const csv = csvOf(table, hidden);
      copy.dataset.csv = csv;
      copyText(csv).then(() => { copy.textContent = 'Copied'; }, () => { copy.textContent = 'Copying failed'; });
      setTimeout(() => { copy.textContent = 'Copy as CSV'; }, 1500);
    });
    tools.append(copy);
  }

  for (const table of document.querySelectorAll('.scroll > table')) {
    const tools = document.createElement('div');
    tools.className = table.tBodies[0].rows.length >= FILTER_FROM ? 'tools' : 'tools quiet';
    addHeads(table);
    table.closest('.scroll').before(tools);
    addFilter(table, tools);
    addCopy(table, tools, addColumns(table, tools));
    table.tBodies[0].addEventListener('click', (e) => {
      const row = e.target.closest('tr');
      if (row && e.target.closest('.full')) row.classList.toggle('open');
    });
  }

  // Paper cannot be unfolded: it shows all findings.
  let unfolded = [];
  addEventListener('beforeprint', () => {
    unfolded = Array.from(document.querySelectorAll('details.rest:not([open])'));
    for (const rest of unfolded) rest.open = true;
  });
  addEventListener('afterprint', () => { for (const rest of unfolded) rest.open = false; });
})();
