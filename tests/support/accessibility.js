// What keeps people from using a page: a list of rules that are broken, and where.
() => {
  const wrong = [];
  const say = (rule, e) => wrong.push(`${rule}: ${e.outerHTML.slice(0, 160)}`);
  const all = (query) => [...document.querySelectorAll(query)];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const hidden = (e) => e.closest('[aria-hidden="true"]');
  const words = (e) => (e.getAttribute('aria-labelledby') ?? '').split(' ').map((i) => document.getElementById(i)?.textContent ?? '').join(' ')
    || e.getAttribute('aria-label') || [...(e.labels ?? [])].map((l) => l.textContent).join(' ') || e.textContent || e.title;

  if (!document.documentElement.lang) wrong.push('the page has no language');
  if (!document.title.trim()) wrong.push('the page has no title');
  if (all('main').length !== 1) wrong.push('there is not one main landmark');
  if (all('h1').length !== 1) wrong.push('there is not one h1');
  if (!document.querySelector('meta[name=viewport]')?.content.includes('width=device-width') ||
      /maximum-scale|user-scalable/.test(document.querySelector('meta[name=viewport]').content)) wrong.push('zooming is hindered');
  for (const nav of all('nav')) if (!words(nav).trim()) say('nav without name', nav);
  let last = 0;
  for (const head of all('h1,h2,h3,h4,h5,h6').filter(seen)) {
    const level = Number(head.tagName[1]);
    if (level > last + 1) say('heading skips a level', head);
    if (!head.textContent.trim()) say('heading without words', head);
    last = level;
  }
  const ids = new Set();
  for (const e of all('[id]')) ids.has(e.id) ? say('id used twice', e) : ids.add(e.id);
  for (const name of ['aria-labelledby', 'aria-describedby', 'aria-controls'])
    for (const e of all(`[${name}]`)) for (const id of e.getAttribute(name).split(' ')) if (!ids.has(id)) say(`${name} points nowhere`, e);
  for (const link of all('a[href^="#"]')) if (!ids.has(link.hash.slice(1))) say('link points nowhere', link);

  const controls = all('button,a[href],input,select,textarea,summary,[tabindex],[role=button],[role=link],[role=img],[role=region],[role=group]').filter(seen);
  for (const e of controls) {
    if (!words(e).trim() && e.tagName !== 'MAIN') say('no name', e);
    if (e.tabIndex > 0) say('tab order is forced', e);
    if (hidden(e) && e.tabIndex >= 0) say('focusable but hidden', e);
  }
  for (const e of all('button,a[href],input').filter(seen)) {
    const box = e.getBoundingClientRect();
    if (!e.closest('p,li,#icicle,label') && box.height < 24) say(`target of ${box.height} pixels`, e);
  }
  for (const e of all(':not(svg *)').filter(seen)) {
    const style = getComputedStyle(e);
    const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY) && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1);
    if (scrolls && e.tabIndex < 0 && e !== document.documentElement && e !== document.body && !e.querySelector('button,a[href],[tabindex="0"]')) say('scrolls but takes no focus', e);
  }
  for (const table of all('table')) {
    if (!table.querySelector('th')) say('table without headers', table);
    for (const head of table.querySelectorAll('th')) if (!head.scope) say('header without scope', head);
  }
  for (const grid of all('[role=treegrid]')) {
    if (grid.querySelectorAll('tbody tr[tabindex="0"]').length !== 1 && grid.tBodies[0].rows.length) say('not one row that Tab reaches', grid);
    for (const row of grid.querySelectorAll('tbody tr')) if (row.role !== 'row' || !row.ariaLevel) say('row without role or level', row);
    for (const cell of grid.querySelectorAll('td')) if (cell.role !== 'gridcell') say('cell without role', cell);
  }

  const parse = (text) => (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a)); };
  const light = (c) => { const [r, g, b] = c.map((x) => ((x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const grounds = new Map([[null, [255, 255, 255]]]);
  const behind = (e) => {
    if (!grounds.has(e)) grounds.set(e, over(parse(getComputedStyle(e).backgroundColor), behind(e.parentElement)));
    return grounds.get(e);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || /SCRIPT|STYLE|NOSCRIPT/.test(e.tagName) || !seen(e) || e.closest('.skip')) continue;
    const style = getComputedStyle(e);
    const ink = parse(e.closest('svg') ? style.fill : style.color);
    const back = behind(e);
    const [a, b] = [light(over(ink, back)), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, e);
  }
  return [...new Set(wrong)];
}
