// The timeline: one canvas with stages on top, then operators, streams and counters on the same time axis.
// Data: <script type="application/json" id="timeline-data">, and further windows with the class timeline-window, which
// a selector shows. Times are ns from the start of the window; each start is
// stored as the difference to the previous one. Slices narrower than a pixel are merged, so a frame draws at most one
// rectangle per pixel and row.
(function () {
  'use strict';
  const box = document.getElementById('timeline-box');
  const first = document.getElementById('timeline-data');
  if (!box || !first) return;
  const windows = [first, ...document.querySelectorAll('script.timeline-window')].map((s) => JSON.parse(s.textContent));
  let shown = null; // ends the listeners of the window shown before
  function show(data) {
    if (shown) shown.abort();
    shown = new AbortController();
    const { signal } = shown;
    const LEFT = () => (canvas.clientWidth < 560 ? 0 : 132);
    const RULER = 26, GAP = 10, LABEL = 16;
    const canvas = document.createElement('canvas');
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', 'Timeline. Arrow keys move, plus and minus zoom, 0 shows all.');
    const where = document.createElement('span');
    where.className = 'where';
    const detail = document.createElement('div');
    detail.className = 'detail';
    const search = document.createElement('input');
    search.type = 'search';
    search.placeholder = 'Find in the timeline';
    search.setAttribute('aria-label', search.placeholder);

    // ---- data: each track becomes rows of slices, sorted by start, that do not overlap
    function buildRows(track) {
      const rows = [];
      let t = 0;
      for (let i = 0; i < track.s.length; i++) {
        t += track.s[i];
        const depth = track.l ? track.l[i] : 0;
        const of = (list, none) => (list ? list[i] : none);
        (rows[depth] ||= []).push([t, track.d[i], track.n[i], of(track.c, -1), of(track.o, -1), of(track.a, -1), of(track.q, 0), of(track.h, -1)]);
      }
      return Array.from(rows, (list) => {
        const row = list || [], n = row.length;
        const out = { n, s: new Float64Array(n), e: new Float64Array(n), name: new Int32Array(n), cat: new Int8Array(n), owner: new Int32Array(n), detail: new Int32Array(n), queued: new Float64Array(n), thread: new Int16Array(n) };
        row.forEach((x, i) => { out.s[i] = x[0]; out.e[i] = x[0] + x[1]; out.name[i] = x[2]; out.cat[i] = x[3]; out.owner[i] = x[4]; out.detail[i] = x[5]; out.queued[i] = x[6]; out.thread[i] = x[7]; });
        return out;
      });
    }
    function buildCounter(c) {
      let t = 0;
      return { ...c, t: Float64Array.from(c.t, (d) => (t += d)), v: c.v };
    }
    const tracks = data.tracks.map((track) => ({ label: track.label, kind: track.kind, rows: buildRows(track) }));
    const counters = data.counters.map(buildCounter);
    const span = Math.max(1, data.span);
    const view = { from: 0, to: span };
    let hover = null, pinned = null, found = null, selection = null, layout = [], frame = 0, colors = null;

    // ---- layout
    const rowHeight = (kind) => (kind === 'stage' ? 22 : 17);
    function place() {
      let y = RULER;
      layout = [];
      for (const track of tracks) {
        y += LEFT() ? 0 : LABEL;
        const top = y;
        for (const row of track.rows) { layout.push({ track, row, y, h: rowHeight(track.kind) - 1 }); y += rowHeight(track.kind); }
        track.y = top;
        y += GAP;
      }
      for (const c of counters) { y += LEFT() ? 0 : LABEL; c.y = y; c.h = 44; y += 44 + GAP; }
      return y;
    }

    // ---- drawing
    const HATCHED = 16; // added to the number of a color: drawn with stripes
    function readColors(style) {
      const get = (name) => style.getPropertyValue(name).trim();
      colors = { ink: get('--ink'), soft: get('--soft'), faint: get('--faint'), line: get('--line'), fill: get('--fill'), card: get('--card'), accent: get('--accent'), accentSoft: get('--accent-soft'), cat: [] };
      for (let i = 0; i < 13; i++) colors.cat.push(get('--c' + i));
      colors.slice = [...colors.cat];
      colors.cat.forEach((color, i) => { colors.slice[HATCHED + i] = stripes(color); });
    }
    // A color with stripes of the background, for the second category that uses the color.
    function stripes(color) {
      const tile = document.createElement('canvas'), t = tile.getContext('2d');
      tile.width = tile.height = 6;
      t.fillStyle = color;
      t.fillRect(0, 0, 6, 6);
      t.strokeStyle = colors.card;
      t.lineWidth = 1.5;
      for (const x of [-6, 0, 6]) { t.moveTo(x, 6); t.lineTo(x + 6, 0); }
      t.stroke();
      return t.createPattern(tile, 'repeat');
    }
    // Print without color: each category gets a motif, the same as in the legend. A motif is a path in a tile of 6 pixels.
    const MOTIFS = ['', 'M-1 1L1 -1M0 6L6 0M5 7L7 5', 'M5 -1L7 1M0 0L6 6M-1 5L1 7', 'M0 3L6 3', 'M3 0L3 6', 'M2 2.4L4 2.4M2 3.6L4 3.6', 'M0 3L6 3M3 0L3 6'];
    function usePrintColors() {
      const motifs = getComputedStyle(document.documentElement);
      for (const i of new Set(data.colors)) {
        const color = colors.cat[i % HATCHED], tile = document.createElement('canvas'), t = tile.getContext('2d');
        tile.width = tile.height = 6;
        t.fillStyle = color;
        t.fillRect(0, 0, 6, 6);
        t.strokeStyle = inkOn(color);
        t.stroke(new Path2D(MOTIFS[Number(motifs.getPropertyValue('--motif' + i))]));
        colors.slice[i] = t.createPattern(tile, 'repeat');
      }
    }
    // The light colors, also if the screen is dark.
    const paperStyle = () => Array.from(document.styleSheets[0].cssRules).find((rule) => rule.selectorText === ':root').style;
    // The color under the label of a slice, without stripes.
    function labelColor(track, row, i) {
      const color = sliceColor(track, row, i);
      return typeof color === 'string' ? color : colors.cat[data.colors[row.cat[i]] % HATCHED];
    }
    // Black or white text, whichever is easier to read on the color (relative luminance of sRGB).
    function inkOn(color) {
      const [red, green, blue] = [1, 3, 5].map((i) => Math.pow(parseInt(color.slice(i, i + 2), 16) / 255, 2.2));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.3 ? '#000000' : '#ffffff';
    }
    const xOf = (t, left, width) => left + ((t - view.from) / (view.to - view.from)) * width;
    function duration(ns) {
      const a = Math.abs(ns);
      if (a >= 1e9) return (ns / 1e9).toFixed(3) + ' s';
      if (a >= 1e6) return (ns / 1e6).toFixed(a >= 1e8 ? 1 : 3) + ' ms';
      if (a >= 1e3) return (ns / 1e3).toFixed(a >= 1e5 ? 1 : 2) + ' \u00b5s';
      return ns.toFixed(0) + ' ns';
    }
    function tickStep(target) {
      const base = Math.pow(10, Math.floor(Math.log10(target)));
      for (const m of [1, 2, 5, 10]) if (base * m >= target) return Math.max(1, base * m);
      return Math.max(1, base * 10);
    }
    function tickText(t, step) {
      const unit = step >= 1e9 ? [1e9, ' s'] : step >= 1e6 ? [1e6, ' ms'] : step >= 1e3 ? [1e3, ' \u00b5s'] : [1, ' ns'];
      return Math.round(t / unit[0]).toLocaleString('en') + unit[1];
    }
    function drawRuler(g, left, width, height) {
      const step = tickStep(((view.to - view.from) / width) * 110);
      g.fillStyle = colors.soft;
      g.strokeStyle = colors.line;
      g.beginPath();
      for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
        const x = Math.round(xOf(t, left, width)) + 0.5;
        g.moveTo(x, RULER - 6);
        g.lineTo(x, height);
        if (x + 60 < left + width) g.fillText(tickText(t, step), x + 4, 14);
      }
      g.stroke();
    }
    function firstVisible(row) {
      let lo = 0, hi = row.n;
      while (lo < hi) { const mid = (lo + hi) >> 1; if (row.e[mid] < view.from) lo = mid + 1; else hi = mid; }
      return lo;
    }
    function sliceColor(track, row, i) {
      if (track.kind === 'stage') return colors.accent;
      if (row.cat[i] >= 0) return colors.slice[data.colors[row.cat[i]]];
      return colors.faint;
    }
    function drawRow(g, item, left, width) {
      const { track, row, y, h } = item, scale = width / (view.to - view.from), right = left + width;
      let lastX = -1;
      for (let i = firstVisible(row); i < row.n && row.s[i] <= view.to; i++) {
        let x = left + (row.s[i] - view.from) * scale, x2 = left + (row.e[i] - view.from) * scale;
        const px = x | 0;
        if (x2 - x < 1 && px === lastX) continue;
        lastX = px;
        x = Math.max(x, left);
        x2 = Math.min(x2, right);
        const w = Math.max(1, x2 - x - (x2 - x > 4 ? 0.7 : 0));
        const dim = found && !found.has(row.name[i]);
        g.globalAlpha = dim ? 0.15 : track.kind === 'op' ? 0.55 : 0.92;
        g.fillStyle = sliceColor(track, row, i);
        g.fillRect(x, y, w, h);
        g.globalAlpha = 1;
        if (w > 34) drawLabel(g, data.names[row.name[i]], x, y, w, h, track.kind === 'op' ? colors.ink : inkOn(labelColor(track, row, i)));
      }
    }
    function drawLabel(g, text, x, y, w, h, ink) {
      const room = Math.floor((w - 8) / 6.1);
      if (room < 3) return;
      g.fillStyle = ink;
      g.fillText(text.length > room ? text.slice(0, room - 1) + '\u2026' : text, x + 4, y + h - 5 - (h > 18 ? 2 : 0));
    }
    function drawCounter(g, c, left, width) {
      const top = c.max > 0 ? c.max : 1, base = c.y + c.h;
      g.strokeStyle = colors.line;
      g.beginPath(); g.moveTo(left, base + 0.5); g.lineTo(left + width, base + 0.5); g.stroke();
      g.fillStyle = colors.accentSoft;
      g.strokeStyle = colors.accent;
      g.beginPath();
      let started = false, lastX = -10;
      let i = 0;
      while (i + 1 < c.t.length && c.t[i + 1] < view.from) i++;
      for (; i < c.t.length; i++) {
        const x = xOf(c.t[i], left, width);
        if (c.v[i] === null) continue;
        const yy = base - Math.min(1, c.v[i] / top) * (c.h - 4); // a sample over the maximum stays in its track
        if (!started) { g.moveTo(Math.max(x, left), base); started = true; }
        if (x - lastX >= 0.5 || c.t[i] > view.to) { g.lineTo(Math.min(Math.max(x, left), left + width), yy); lastX = x; }
        if (c.t[i] > view.to) break;
      }
      if (started) { g.lineTo(Math.min(left + width, Math.max(lastX, left)), base); g.fill(); g.stroke(); }
    }
    function drawLabels(g, left) {
      g.fillStyle = colors.card;
      if (left) g.fillRect(0, 0, left, 1e5);
      g.fillStyle = colors.soft;
      const put = (text, y, h) => {
        const room = Math.floor((left || 300) / 6.4);
        g.fillText(text.length > room ? text.slice(0, room - 1) + '\u2026' : text, 0, left ? y + Math.min(h, 22) / 2 + 5 : y - 4);
      };
      for (const t of tracks) put(t.label, t.y, t.rows.length * rowHeight(t.kind));
      for (const c of counters) put(c.label + (c.max > 0 ? ' (' + Number(c.max.toPrecision(3)) + ' ' + c.unit + ')' : ''), c.y, c.h);
    }
    function draw() {
      frame = 0;
      if (!colors) readColors(getComputedStyle(document.documentElement));
      const height = place(), cssWidth = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(cssWidth * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.style.height = height + 'px';
        canvas.width = Math.round(cssWidth * ratio);
        canvas.height = Math.round(height * ratio);
      }
      const g = canvas.getContext('2d'), left = LEFT(), width = Math.max(1, cssWidth - left);
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.clearRect(0, 0, cssWidth, height);
      g.font = '11.5px ' + getComputedStyle(document.body).fontFamily;
      drawRuler(g, left, width, height);
      for (const item of layout) drawRow(g, item, left, width);
      for (const c of counters) drawCounter(g, c, left, width);
      drawLabels(g, left);
      if (selection) drawSelection(g, left, width, height);
      const mark = hover || pinned;
      if (mark) { outline(g, mark, left, width); drawArrow(g, mark, left, width); }
      where.textContent = duration(view.to - view.from) + ' of ' + duration(span);
      canvas.dataset.from = view.from;
      canvas.dataset.to = view.to;
      canvas.dataset.pinned = pinned ? data.names[pinned.row.name[pinned.i]] : '';
    }
    function outline(g, hit, left, width) {
      const x = Math.max(left, xOf(hit.row.s[hit.i], left, width));
      const x2 = Math.min(left + width, xOf(hit.row.e[hit.i], left, width));
      if (x2 < left || x > left + width) return;
      g.strokeStyle = colors.ink;
      g.lineWidth = 1.5;
      g.strokeRect(x, hit.y - 0.5, Math.max(2, x2 - x), hit.h + 1);
      g.lineWidth = 1;
    }
    // From the launch call, on the track of its thread, to the kernel.
    function drawArrow(g, hit, left, width) {
      const track = tracks[hit.row.thread[hit.i]], queued = hit.row.queued[hit.i];
      if (!track || !queued) return;
      const x = xOf(hit.row.s[hit.i] - queued, left, width), x2 = xOf(hit.row.s[hit.i], left, width);
      const y = track.y + track.rows.length * rowHeight(track.kind) - 2;
      g.strokeStyle = g.fillStyle = colors.ink;
      g.beginPath();
      g.moveTo(Math.max(left, x), y);
      g.lineTo(x2, hit.y);
      g.stroke();
      g.beginPath();
      g.moveTo(x2, hit.y); g.lineTo(x2 - 4, hit.y - 7); g.lineTo(x2 + 4, hit.y - 7);
      g.fill();
    }
    function drawSelection(g, left, width, height) {
      const x = Math.max(left, xOf(selection.from, left, width)), x2 = Math.min(left + width, xOf(selection.to, left, width));
      g.globalAlpha = 0.15;
      g.fillStyle = colors.accent;
      g.fillRect(x, 0, Math.max(1, x2 - x), height);
      g.globalAlpha = 1;
    }
    const redraw = () => { if (!frame) frame = requestAnimationFrame(draw); };

    // ---- zooming and panning
    function setView(from, to) {
      const size = Math.min(span, Math.max(20, to - from));
      from = Math.min(Math.max(0, from), span - size);
      view.from = from;
      view.to = from + size;
      redraw();
    }
    function zoom(factor, center) {
      const at = center === undefined ? (view.from + view.to) / 2 : center;
      setView(at - (at - view.from) * factor, at + (view.to - at) * factor);
    }
    const pan = (share) => setView(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);
    const timeAt = (x) => view.from + ((x - LEFT()) / Math.max(1, canvas.clientWidth - LEFT())) * (view.to - view.from);

    function hitAt(x, y) {
      const item = layout.find((l) => y >= l.y && y < l.y + l.h + 1);
      if (!item || x < LEFT()) return null;
      const t = timeAt(x), slack = ((view.to - view.from) / canvas.clientWidth) * 2, row = item.row;
      let best = null;
      for (let i = firstVisible(row); i < row.n && row.s[i] <= t + slack; i++)
        if (row.e[i] >= t - slack && (!best || row.e[i] - row.s[i] >= best.row.e[best.i] - best.row.s[best.i])) {
          best = { row, i, y: item.y, h: item.h, track: item.track };
          if (row.s[i] <= t && row.e[i] >= t) break;
        }
      return best;
    }
    function tell(hit) {
      detail.replaceChildren();
      if (!hit) { detail.textContent = data.note; return; }
      const name = document.createElement('b');
      name.textContent = data.names[hit.row.name[hit.i]];
      const rest = [' ' + duration(hit.row.e[hit.i] - hit.row.s[hit.i]) + ' at ' + duration(hit.row.s[hit.i]) + ', ' + hit.track.label];
      if (hit.row.cat[hit.i] >= 0 && data.categories[hit.row.cat[hit.i]]) rest.push(data.categories[hit.row.cat[hit.i]]);
      if (hit.row.owner[hit.i] >= 0) rest.push('from ' + data.names[hit.row.owner[hit.i]]);
      if (hit.row.queued[hit.i] > 0) rest.push('launched ' + duration(hit.row.queued[hit.i]) + ' before its start');
      if (hit.row.detail[hit.i] >= 0) rest.push(data.names[hit.row.detail[hit.i]]);
      detail.append(name, rest.join(' \u00b7 '));
    }

    const counterAt = (x, y) => (x < LEFT() ? null : counters.find((c) => y >= c.y && y < c.y + c.h));
    // The last sample before the time.
    function tellCounter(c, t) {
      let lo = 0, hi = c.t.length;
      while (lo < hi) { const mid = (lo + hi) >> 1; if (c.t[mid] <= t) lo = mid + 1; else hi = mid; }
      const value = lo ? c.v[lo - 1] : null;
      detail.textContent = c.label + ' at ' + duration(t) + ': ' + (value === null || value === undefined ? 'no sample' : Number(value.toPrecision(4)) + ' ' + c.unit);
    }

    // Sums of the selected time by kind: kernel categories on streams, names elsewhere. Slices are clipped.
    function sumSelection() {
      const sums = new Map();
      for (const { track, row } of layout) {
        if (track.kind === 'stage') continue;
        for (let i = 0; i < row.n && row.s[i] < selection.to; i++) {
          const ns = Math.min(row.e[i], selection.to) - Math.max(row.s[i], selection.from);
          if (ns <= 0) continue;
          const kind = row.cat[i] >= 0 ? data.categories[row.cat[i]] : track.label;
          const sum = sums.get(kind) || { ns: 0, n: 0 };
          sum.ns += ns; sum.n++;
          sums.set(kind, sum);
        }
      }
      return [...sums].sort((a, b) => b[1].ns - a[1].ns);
    }
    function tellSelection() {
      const size = duration(selection.to - selection.from), name = document.createElement('b');
      name.textContent = size + ' selected';
      const parts = sumSelection().slice(0, 8).map(([kind, sum]) => kind + ' ' + duration(sum.ns) + ' (' + sum.n + ')');
      detail.replaceChildren(name, ': ' + (parts.join(' \u00b7 ') || 'nothing') );
    }

    const pointers = new Map();
    let dragFrom = null, moved = false;
    canvas.addEventListener('pointerdown', (e) => {
      canvas.setPointerCapture(e.pointerId);
      pointers.set(e.pointerId, e);
      dragFrom = { x: e.offsetX, from: view.from, to: view.to, selects: e.shiftKey };
      moved = false;
      canvas.classList.add('drag');
    });
    canvas.addEventListener('pointermove', (e) => {
      const before = pointers.get(e.pointerId);
      if (before && pointers.size === 2) {
        const other = [...pointers.values()].find((p) => p.pointerId !== e.pointerId);
        const was = Math.abs(before.offsetX - other.offsetX), now = Math.abs(e.offsetX - other.offsetX);
        if (was > 4 && now > 4) zoom(was / now, timeAt((e.offsetX + other.offsetX) / 2));
        moved = true;
      } else if (before && dragFrom) {
        const dx = e.offsetX - dragFrom.x;
        if (Math.abs(dx) > 3) moved = true;
        if (dragFrom.selects) {
          const a = timeAt(dragFrom.x), b = timeAt(e.offsetX);
          selection = { from: Math.max(0, Math.min(a, b)), to: Math.min(span, Math.max(a, b)) };
          tellSelection();
          redraw();
          pointers.set(e.pointerId, e);
          return;
        }
        const shift = (-dx / Math.max(1, canvas.clientWidth - LEFT())) * (dragFrom.to - dragFrom.from);
        setView(dragFrom.from + shift, dragFrom.to + shift);
      } else {
        hover = hitAt(e.offsetX, e.offsetY);
        const counter = hover ? null : counterAt(e.offsetX, e.offsetY);
        if (counter) tellCounter(counter, timeAt(e.offsetX));
        else if (selection && !hover) tellSelection(); else tell(hover || pinned);
        redraw();
      }
      if (before) pointers.set(e.pointerId, e);
    });
    const release = (e) => {
      pointers.delete(e.pointerId);
      canvas.classList.remove('drag');
      if (e.type === 'pointerup' && !moved) { selection = null; pinned = hitAt(e.offsetX, e.offsetY); tell(pinned); redraw(); }
      dragFrom = null;
    };
    canvas.addEventListener('pointerup', release);
    canvas.addEventListener('pointercancel', release);
    canvas.addEventListener('pointerleave', () => { hover = null; if (selection) tellSelection(); else tell(pinned); redraw(); });
    canvas.addEventListener('dblclick', (e) => {
      const hit = hitAt(e.offsetX, e.offsetY);
      if (!hit) return zoom(0.5, timeAt(e.offsetX));
      const s = hit.row.s[hit.i], d = Math.max(20, hit.row.e[hit.i] - s);
      setView(s - d * 0.1, s + d * 1.1);
    });
    // The wheel scrolls the page. With Ctrl (or a pinch) it zooms, horizontally it pans.
    canvas.addEventListener('wheel', (e) => {
      if (e.ctrlKey || e.metaKey) zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) * 0.012), timeAt(e.offsetX));
      else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX / canvas.clientWidth);
      else return;
      e.preventDefault();
    }, { passive: false });
    const keys = { '+': () => zoom(0.5), '=': () => zoom(0.5), w: () => zoom(0.5), '-': () => zoom(2), s: () => zoom(2), ArrowLeft: () => pan(-0.2), a: () => pan(-0.2), ArrowRight: () => pan(0.2), d: () => pan(0.2), 0: () => setView(0, span) };
    canvas.addEventListener('keydown', (e) => {
      if (e.ctrlKey || e.metaKey || !keys[e.key]) return;
      keys[e.key]();
      e.preventDefault();
    });
    // The next or previous slice with a found name, by start time over all tracks.
    function findNext(sign) {
      if (!found) return;
      const now = pinned ? pinned.row.s[pinned.i] : sign > 0 ? -1 : span + 1;
      let best = null;
      for (const item of layout)
        for (let i = 0; i < item.row.n; i++) {
          const away = (item.row.s[i] - now) * sign;
          if (found.has(item.row.name[i]) && away > 0 && (!best || away < (best.row.s[best.i] - now) * sign))
            best = { row: item.row, i, y: item.y, h: item.h, track: item.track };
        }
      if (!best) return;
      pinned = best;
      const s = best.row.s[best.i], e = best.row.e[best.i], size = Math.max(view.to - view.from, e - s);
      if (s < view.from || e > view.to) setView((s + e) / 2 - size / 2, (s + e) / 2 + size / 2);
      tell(pinned);
      redraw();
    }
    function tellFound(word) {
      let n = 0;
      for (const { row } of layout) for (let i = 0; i < row.n; i++) if (found.has(row.name[i])) n++;
      detail.textContent = n ? n.toLocaleString('en') + (n === 1 ? ' slice matches.' : ' slices match.') + ' Enter and Shift + Enter show the next and the previous one.'
        : 'No slice has "' + word + '" in its name.';
    }
    search.addEventListener('keydown', (e) => { if (e.key === 'Enter') findNext(e.shiftKey ? -1 : 1); });
    search.addEventListener('input', () => {
      const word = search.value.toLowerCase();
      found = null;
      if (word) { found = new Set(); data.names.forEach((n, i) => { if (n.toLowerCase().includes(word)) found.add(i); }); }
      if (found) tellFound(word); else tell(pinned);
      redraw();
    });

    // ---- Perfetto: the window as Chrome trace events, sent to ui.perfetto.dev in a new tab. Only a click sends anything.
    function chromeTrace() {
      const events = [];
      tracks.forEach((track, t) => {
        events.push({ ph: 'M', pid: 1, tid: t + 1, name: 'thread_name', args: { name: track.label } });
        for (const row of track.rows)
          for (let i = 0; i < row.n; i++) {
            const args = {};
            if (row.owner[i] >= 0) args.operator = data.names[row.owner[i]];
            if (row.detail[i] >= 0) args.geometry = data.names[row.detail[i]];
            if (row.queued[i] > 0) args.launch_to_start_us = row.queued[i] / 1000;
            events.push({ ph: 'X', pid: 1, tid: t + 1, ts: row.s[i] / 1000, dur: (row.e[i] - row.s[i]) / 1000, name: data.names[row.name[i]],
              cat: row.cat[i] >= 0 ? data.categories[row.cat[i]] : track.kind, args });
          }
      });
      return JSON.stringify({ traceEvents: events });
    }
    function openInPerfetto() {
      const origin = 'https://ui.perfetto.dev';
      if (!confirm('This opens ' + origin + ' and hands it the slices of this timeline. Go on?')) return;
      const tab = window.open(origin);
      if (!tab) { detail.textContent = 'The browser blocked the new tab.'; return; }
      const buffer = new TextEncoder().encode(chromeTrace()).buffer;
      const timer = setInterval(() => tab.postMessage('PING', origin), 100);
      const answer = (e) => {
        if (e.origin !== origin || e.data !== 'PONG') return;
        clearInterval(timer);
        window.removeEventListener('message', answer);
        tab.postMessage({ perfetto: { buffer, title: document.title, fileName: 'inferprof.json' } }, origin);
      };
      window.addEventListener('message', answer);
      setTimeout(() => clearInterval(timer), 30000);
    }

    // Some browsers print a canvas blank: print a picture of it.
    const picture = document.createElement('img');
    picture.className = 'print';
    picture.alt = 'Timeline';
    addEventListener('beforeprint', () => {
      readColors(paperStyle());
      usePrintColors();
      draw();
      picture.src = canvas.toDataURL('image/png');
      colors = null;
      redraw();
    }, { signal });

    // ---- controls
    const tools = document.createElement('div');
    tools.className = 'tools';
    const button = (text, label, act) => {
      const b = document.createElement('button');
      b.type = 'button';
      b.textContent = text;
      b.setAttribute('aria-label', label);
      b.addEventListener('click', act);
      return b;
    };
    tools.append(button('+', 'Zoom in', () => zoom(0.5)), button('\u2212', 'Zoom out', () => zoom(2)), button('\u2190', 'Earlier', () => pan(-0.4)), button('\u2192', 'Later', () => pan(0.4)), button('All', 'Show all', () => setView(0, span)), search, button('\u2191', 'Find previous', () => findNext(-1)), button('\u2193', 'Find next', () => findNext(1)), button('Open in Perfetto', 'Send this window to ui.perfetto.dev', openInPerfetto), where);
    const legend = document.createElement('div');
    legend.className = 'key';
    data.categories.forEach((name, i) => {
      if (!data.used.includes(i)) return;
      const item = document.createElement('span'), swatch = document.createElement('i');
      swatch.className = 'c' + data.colors[i] % HATCHED + (data.colors[i] >= HATCHED ? ' hatched' : '');
      item.append(swatch, name);
      legend.append(item);
    });
    if (windows.length > 1) {
      const select = document.createElement('select');
      select.setAttribute('aria-label', 'Window');
      for (const w of windows) select.append(new Option('Window: ' + w.name, String(windows.indexOf(w)), false, w === data));
      select.addEventListener('change', () => show(windows[Number(select.value)]));
      tools.prepend(select);
    }
    box.replaceChildren(tools, legend, canvas, picture, detail);
    tell(null);
    const observer = new ResizeObserver(redraw);
    observer.observe(canvas);
    signal.addEventListener('abort', () => observer.disconnect());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { colors = null; redraw(); }, { signal });
    redraw();
  }
  show(windows[0]);
})();
