// Keys, the choice of a series, and the comparison of selected runs. Every page works without this script.
(function () {
  'use strict';
  const pages = { r: '/runs', t: '/trends', f: '/findings', m: '/machines', j: '/jobs' };
  let pending = false;

  function isTyping(element) {
    return element && /^(input|select|textarea)$/i.test(element.tagName) && element.type !== 'checkbox';
  }

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(document.activeElement)) return;
    if (event.key === '/') {
      const search = document.querySelector('input[type=search]');
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (pending && pages[event.key]) {
      location.href = pages[event.key];
    }
    pending = event.key === 'g';
  });

  const series = document.getElementById('series');
  if (series) series.addEventListener('change', () => { location.href = series.value; });

  const pick = document.getElementById('pick');
  if (pick) {
    const button = document.getElementById('compare');
    const label = document.getElementById('picked');
    const update = () => {
      const n = pick.querySelectorAll('input:checked').length;
      button.disabled = n < 2;
      if (n > 0) label.textContent = n + ' selected. The oldest is the baseline.';
    };
    pick.addEventListener('change', update);
    update();
  }
})();
