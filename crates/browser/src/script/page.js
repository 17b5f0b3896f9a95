// Runs in a world of its own in each frame: the page sees nothing of it. It describes the page in lines of text, gives numbers
// to elements, and looks up where an element with a number is.
(() => {
  if (globalThis.__swb) return;
  // A form or a document has a property for each named element in it (`<input name=getAttribute>`), which hides what its
  // interface has. So everything is taken from the interfaces, under names that no page can use.
  const $ = Object.create(null);
  for (const { prototype } of [EventTarget, Node, Element, HTMLElement, Document, DocumentFragment, ShadowRoot]) {
    for (const [name, property] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      $[name] = $[name] || Symbol(name);
      Object.defineProperty(prototype, $[name], property);
    }
  }

  const refs = new Map();
  const numbers = new WeakMap();
  const closedRoots = new WeakMap();
  let nextRef = 1;

  const SKIPPED = new Set(['script', 'style', 'template', 'noscript', 'head', 'meta', 'link', 'title', 'base', 'param', 'source', 'track', 'colgroup', 'col', 'datalist', 'area', 'map']);
  const BLOCKS = new Set(['address', 'article', 'aside', 'blockquote', 'body', 'br', 'center', 'dd', 'details', 'dialog', 'div', 'dl', 'dt', 'fieldset', 'figcaption', 'figure', 'footer', 'form', 'header', 'hgroup', 'hr', 'legend', 'li', 'main', 'menu', 'nav', 'ol', 'p', 'pre', 'search', 'section', 'table', 'tbody', 'tfoot', 'thead', 'tr', 'ul', 'caption']);
  const TAG_ROLES = {
    button: 'button', textarea: 'textbox', option: 'option', h1: 'heading', h2: 'heading', h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading',
    nav: 'navigation', main: 'main', aside: 'complementary', form: 'form', table: 'table', tr: 'row', td: 'cell', th: 'columnheader', dialog: 'dialog',
    summary: 'button', iframe: 'iframe', frame: 'iframe', video: 'video', audio: 'audio', canvas: 'canvas', progress: 'progressbar', meter: 'meter', search: 'search', img: 'image',
  };
  const INPUT_ROLES = { button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio', range: 'slider', number: 'spinbutton', search: 'searchbox', file: 'file' };
  const INTERACTIVE = new Set(['button', 'link', 'textbox', 'searchbox', 'checkbox', 'radio', 'combobox', 'listbox', 'option', 'slider', 'spinbutton', 'switch', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'treeitem', 'file', 'clickable', 'canvas', 'video', 'audio']);
  const CONTAINERS = new Set(['navigation', 'main', 'complementary', 'form', 'table', 'grid', 'treegrid', 'dialog', 'alertdialog', 'search', 'region', 'tablist', 'menu', 'menubar', 'tree', 'toolbar', 'radiogroup', 'alert', 'status', 'iframe', 'listbox', 'tabpanel']);
  const KNOWN_ROLES = new Set([...INTERACTIVE, ...CONTAINERS, 'heading', 'row', 'cell', 'gridcell', 'columnheader', 'rowheader', 'image', 'img', 'progressbar', 'meter', 'article', 'list', 'listitem', 'group', 'none', 'presentation', 'separator', 'tooltip', 'figure', 'rowgroup', 'note', 'log', 'banner', 'contentinfo', 'generic']);
  const CONTROLS = 'a[href],button,input:not([type=hidden]),select,textarea,summary,[contenteditable=""],[contenteditable=true],[role=button],[role=link],[role=checkbox],[role=radio],[role=textbox],[role=combobox],[role=option],[role=switch],[role=tab],[role=menuitem],[role=menuitemcheckbox],[role=menuitemradio],[role=treeitem],[role=slider],[role=spinbutton],[onclick],[tabindex="0"]';
  const STOP = {};

  const squeeze = (text) => text.replace(/[\s\u0000-\u001f\u007f]+/g, ' ').trim();
  const cut = (text, max) => (text.length > max ? text.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '') + '…' : text);
  const quote = (text, max = 120) => '"' + cut(squeeze(text), max).replace(/"/g, "'") + '"';

  // What a page names itself, shown without quotation marks, could be read as something else.
  const tagOf = (element) => (/^[a-z][a-z0-9-]{0,30}$/.test(element[$.localName]) ? element[$.localName] : 'element');

  function levelOf(heading) {
    const level = Number(heading[$.getAttribute]('aria-level')) || Number(heading[$.localName].slice(1)) || 2;
    return Math.min(Math.max(Math.round(level), 1), 9);
  }

  function numberOf(element) {
    let number = numbers.get(element);
    if (number === undefined) {
      number = nextRef++;
      numbers.set(element, number);
      refs.set(number, { element: new WeakRef(element), label: '' });
    }
    return number;
  }

  const rootOf = (element) => element[$.shadowRoot] || closedRoots.get(element) || null;

  function childrenOf(element) {
    const root = rootOf(element);
    if (root) return root[$.childNodes];
    if (element[$.localName] === 'slot') {
      const assigned = element.assignedNodes({ flatten: true });
      if (assigned.length) return assigned;
    }
    return element[$.childNodes];
  }

  // 'no': nothing of it shows. 'self': it shows nothing, but elements in it may. 'yes': it shows.
  function visibility(element) {
    if (element[$.checkVisibility]({ visibilityProperty: true })) return 'yes';
    const name = element[$.localName];
    if (name === 'slot') return 'self';
    if (element[$.checkVisibility]()) return 'self';
    const style = getComputedStyle(element);
    if (style.display !== 'contents') return 'no';
    return style.visibility === 'visible' ? 'yes' : 'self';
  }

  function roleOf(element) {
    const explicit = element[$.getAttribute]('role');
    if (explicit) {
      for (const word of explicit.toLowerCase().split(/\s+/)) {
        if (word === 'none' || word === 'presentation') return element[$.matches]('a[href],button,input,select,textarea') ? tagRole(element) : 'generic';
        if (KNOWN_ROLES.has(word)) return word === 'img' ? 'image' : word;
      }
    }
    return tagRole(element);
  }

  function tagRole(element) {
    const name = element[$.localName];
    switch (name) {
      case 'a': return element[$.hasAttribute]('href') ? 'link' : clickRole(element);
      case 'input': {
        const type = element.type;
        if (type === 'hidden') return null;
        return INPUT_ROLES[type] || 'textbox';
      }
      case 'select': return element.multiple || element.size > 1 ? 'listbox' : 'combobox';
      case 'section': return element[$.hasAttribute]('aria-label') || element[$.hasAttribute]('aria-labelledby') ? 'region' : null;
      case 'svg': return null;
    }
    return TAG_ROLES[name] || clickRole(element);
  }

  function clickRole(element) {
    const editable = element[$.getAttribute]('contenteditable');
    if (editable !== null && editable !== 'false') return 'textbox';
    if (element[$.hasAttribute]('onclick')) return 'clickable';
    const tab = element[$.getAttribute]('tabindex');
    if (tab !== null && Number(tab) >= 0 && element !== document[$.body]) return 'clickable';
    return null;
  }

  // A div that only its pointer shows to be a button.
  function hasOwnPointer(element) {
    if (getComputedStyle(element).cursor !== 'pointer') return false;
    const parent = element[$.parentElement];
    return !parent || getComputedStyle(parent).cursor !== 'pointer';
  }

  function textOf(element, max = 400) {
    let text = '';
    const visit = (node) => {
      if (text.length > max) return;
      if (node[$.nodeType] === 3) {
        text += node.data;
        return;
      }
      if (node[$.nodeType] !== 1 || SKIPPED.has(node[$.localName])) return;
      if (node !== element) {
        if (node[$.getAttribute]('aria-hidden') === 'true' || visibility(node) === 'no') return;
        const label = node[$.getAttribute]('aria-label');
        if (label) { text += ' ' + label + ' '; return; }
        if (node[$.localName] === 'img') { text += ' ' + (node.alt || '') + ' '; return; }
        if (node[$.localName] === 'input' || node[$.localName] === 'select' || node[$.localName] === 'textarea') return;
      }
      if (node[$.localName] === 'svg') {
        const title = node[$.querySelector]('title');
        if (title) text += ' ' + title[$.textContent] + ' ';
        return;
      }
      const block = BLOCKS.has(node[$.localName]) || node[$.localName] === 'td';
      if (block) text += ' ';
      for (const child of childrenOf(node)) visit(child);
      if (block) text += ' ';
    };
    visit(element);
    return squeeze(text);
  }

  // The labels of fields, by root. The browser's own list searches the whole page for each field.
  let labelMaps = new Map();

  function labelsOf(element) {
    const tag = element[$.localName];
    if (tag !== 'input' && tag !== 'select' && tag !== 'textarea' && tag !== 'button' && !tag.includes('-')) return [];
    const root = element[$.getRootNode]();
    let map = labelMaps.get(root);
    if (!map) {
      map = new Map();
      for (const label of root[$.querySelectorAll]('label')) {
        const field = label.control;
        if (field) map.set(field, [...(map.get(field) || []), label]);
      }
      labelMaps.set(root, map);
    }
    return map.get(element) || [];
  }

  // The accessible name, and the text that shows where it is something else.
  function nameOf(element, role) {
    const labelledBy = element[$.getAttribute]('aria-labelledby');
    if (labelledBy) {
      const root = element[$.getRootNode]();
      const text = squeeze(labelledBy.split(/\s+/).slice(0, 8).map((id) => (root[$.getElementById] && root[$.getElementById](id) ? textOf(root[$.getElementById](id), 200) : '')).join(' '));
      if (text) return text;
    }
    const label = squeeze(element[$.getAttribute]('aria-label') || '');
    if (label) return label;
    const tag = element[$.localName];
    const labels = labelsOf(element);
    if (labels.length) {
      const text = squeeze(labels.slice(0, 3).map((it) => textOf(it, 200)).join(' '));
      if (text) return text;
    }
    if (tag === 'input') {
      if (element.type === 'submit' || element.type === 'button' || element.type === 'reset') {
        return squeeze(element.value) || (element.type === 'submit' ? 'Submit' : element.type === 'reset' ? 'Reset' : '');
      }
      if (element.type === 'image') return squeeze(element.alt || element.value || '');
    }
    if (tag === 'img' || tag === 'area') return squeeze(element.alt || element[$.title] || '');
    if (tag === 'iframe' || tag === 'frame') return squeeze(element[$.title] || element.name || '');
    if (tag === 'fieldset') { const legend = element[$.querySelector](':scope > legend'); if (legend) return textOf(legend, 200); }
    if (tag === 'table') return element.caption ? textOf(element.caption, 200) : squeeze(element[$.title] || '');
    if (INTERACTIVE.has(role) && !CONTAINERS.has(role) && tag !== 'input' && tag !== 'select' && tag !== 'textarea' && tag !== 'canvas' && !(role === 'textbox' || role === 'combobox')) {
      const text = textOf(element);
      if (text) return text;
    }
    if (role === 'heading' || role === 'row' || role === 'cell') return textOf(element);
    const placeholder = element[$.getAttribute]('placeholder');
    if (placeholder) return squeeze(placeholder);
    return squeeze(element[$.getAttribute]('title') || element[$.getAttribute]('name') || '');
  }

  // A name that hides what the element shows.
  function shownText(element, name) {
    if (!element[$.hasAttribute]('aria-label') && !element[$.hasAttribute]('aria-labelledby')) return '';
    const shown = textOf(element, 120);
    if (!shown || !/[\p{L}\p{N}]{2}/u.test(shown)) return '';
    const [a, b] = [shown.toLowerCase(), name.toLowerCase()];
    return a.includes(b) || b.includes(a) ? '' : shown;
  }

  function statesOf(element, role) {
    const states = [];
    const aria = (name) => element[$.getAttribute]('aria-' + name);
    const tag = element[$.localName];
    let value = '';
    if (tag === 'input' || tag === 'textarea') {
      const type = element.type;
      if (type === 'checkbox' || type === 'radio') {
        if (element.checked) states.push('checked');
        if (element.indeterminate) states.push('mixed');
      } else if (type === 'password') {
        states.push('password');
        if (element.value) states.push('filled');
      } else if (type === 'file') {
        if (element.files.length) value = [...element.files].map((it) => it.name).join(', ');
        if (element.multiple) states.push('many');
      } else if (role === 'textbox' || role === 'searchbox' || role === 'spinbutton' || role === 'slider') {
        value = element.value;
        if (!['text', 'search', 'number', 'range', 'textarea', 'email', 'tel', 'url'].includes(type)) states.push(type);
      }
      if (element.required) states.push('required');
      if (element.readOnly && (role === 'textbox' || role === 'searchbox')) states.push('readonly');
      if (value && !element.checkValidity()) states.push('invalid');
    } else if (tag === 'select') {
      value = [...element.selectedOptions].map((it) => squeeze(it.label)).join(', ');
      if (element.required) states.push('required');
    } else if (element[$.isContentEditable] && role === 'textbox') {
      value = cut(element[$.innerText], 200);
    } else if (role === 'slider' || role === 'spinbutton' || role === 'progressbar' || role === 'meter') {
      value = aria('valuetext') || aria('valuenow') || (element.value !== undefined ? String(element.value) : '');
    }
    for (const name of ['checked', 'selected', 'pressed', 'expanded', 'current']) {
      const it = aria(name);
      if (it === 'true' || it === 'mixed' || (name === 'current' && it && it !== 'false')) states.push(it === 'mixed' ? 'mixed' : name);
      else if (it === 'false' && name === 'expanded') states.push('collapsed');
    }
    if (tag === 'summary' && element[$.parentElement]) states.push(element[$.parentElement].open ? 'expanded' : 'collapsed');
    if (tag === 'option' && element.selected) states.push('selected');
    if (aria('invalid') === 'true') states.push('invalid');
    if (aria('required') === 'true') states.push('required');
    if (aria('haspopup') && aria('haspopup') !== 'false') states.push('popup');
    if (isDisabled(element)) states.push('disabled');
    if (element === element[$.getRootNode]()[$.activeElement] && element !== document[$.body]) states.push('focused');
    return (value ? ' =' + quote(value, 100) : '') + (states.length ? ' [' + [...new Set(states)].join(' ') + ']' : '');
  }

  const isDisabled = (element) => element[$.matches](':disabled') || element[$.closest]('[aria-disabled=true]') !== null;

  function addressOf(element) {
    const href = element[$.getAttribute]('href') || '';
    if (!href || href.startsWith('#') || /^javascript:/i.test(href)) return '';
    let text = href;
    try {
      const url = new URL(href, document[$.baseURI]);
      text = url.origin === location.origin ? url.pathname + url.search : url.href;
    } catch { return ''; }
    return ' ' + cut(squeeze(text).replace(/ /g, '%20'), 80);
  }

  function describe(element, role, withAddress) {
    const name = nameOf(element, role);
    const number = numberOf(element);
    refs.get(number).label = role + ' ' + quote(name, 60);
    let text = role + (name ? ' ' + quote(name) : '');
    const shown = shownText(element, name);
    if (shown) text += ' (shows ' + quote(shown, 80) + ')';
    text += ' e' + number + statesOf(element, role);
    if (withAddress && role === 'link') text += addressOf(element);
    if (element[$.localName] === 'select') text += optionsOf(element);
    return text;
  }

  function optionsOf(select) {
    const options = [...select.options];
    const shown = options.slice(0, 12).map((it) => quote(it.label, 40)).join(', ');
    const more = options.length > 12 ? `, and ${options.length - 12} more` : '';
    return options.length ? ` options: ${shown}${more}` : '';
  }

  class Writer {
    constructor(options) {
      this.max = options.max;
      this.filter = options.filter;
      this.depth = options.depth || 0;
      this.after = options.after || null;
      this.lines = [];
      this.size = 0;
      this.pieces = [];
      this.cells = null;
      this.indent = 0;
      this.headers = [];
      this.frames = [];
      this.controls = 0;
      this.lastRef = 0;
      this.stopped = false;
      this.nodes = 0;
      this.deadline = performance.now() + 6000;
    }

    text(text) {
      if (this.filter === 'interactive' && !this.cells) return;
      const last = this.pieces[this.pieces.length - 1];
      if (last && last.text !== undefined) last.text += text;
      else if (text.trim()) this.pieces.push({ text });
    }

    piece(piece, number) {
      this.pieces.push({ piece, number });
    }

    joined(max) {
      const parts = [];
      for (const it of this.pieces) {
        if (it.text === undefined) parts.push(it.piece);
        else { const text = squeeze(it.text); if (text) parts.push(quote(text, max)); }
      }
      return parts.join(' ');
    }

    flush() {
      if (!this.pieces.length || this.cells) return;
      const line = this.joined(400);
      const numbers = this.pieces.filter((it) => it.number);
      this.pieces = [];
      if (line) this.write(line, numbers);
    }

    write(line, numbers) {
      if (this.after) return;
      const pending = this.headers.filter((it) => !it.written);
      const added = [...pending.map((it) => '  '.repeat(it.indent) + it.line), '  '.repeat(this.indent) + line];
      const size = added.reduce((sum, it) => sum + it.length + 1, 0);
      if (this.size + size > this.max) {
        // One line that is longer than everything allowed is cut; otherwise the next page begins with it.
        if (this.lines.length) { this.stopped = true; throw STOP; }
        added[added.length - 1] = cut(added[added.length - 1], Math.max(this.max, 200));
      }
      pending.forEach((it) => { it.written = true; });
      this.lines.push(...added);
      this.size += size;
      this.controls += numbers.length;
      if (numbers.length) this.lastRef = numbers[numbers.length - 1].number;
    }

    open(line) {
      this.flush();
      this.headers.push({ line, indent: this.indent, written: this.cells !== null });
      this.indent += 1;
    }

    close() {
      this.flush();
      this.headers.pop();
      this.indent -= 1;
    }

    children(element) {
      for (const child of childrenOf(element)) this.visit(child);
    }

    visit(node) {
      if (node[$.nodeType] === 3) { this.text(node.data); return; }
      if (node[$.nodeType] !== 1) return;
      if ((++this.nodes & 255) === 0 && performance.now() > this.deadline) { this.stopped = true; throw STOP; }
      const tag = node[$.localName];
      if (SKIPPED.has(tag) || node[$.getAttribute]('aria-hidden') === 'true') return;
      const shows = visibility(node);
      if (shows === 'no') {
        // File fields and boxes are often hidden behind a picture of themselves.
        if (tag === 'input' && node.type === 'file' && labelsOf(node).length) this.piece(describe(node, 'file'), numberOf(node));
        return;
      }
      if (shows === 'self') {
        if (tag === 'slot' || rootOf(node)) { this.children(node); return; }
        for (const child of childrenOf(node)) if (child[$.nodeType] === 1) this.visit(child);
        return;
      }
      let role = roleOf(node);
      if (!role && (tag === 'div' || tag === 'span' || tag === 'li' || tag === 'label' || tag === 'svg') && hasOwnPointer(node) && !node[$.querySelector](CONTROLS) && !(tag === 'label' && node.control)) role = 'clickable';
      if (this.after === node) { this.after = null; this.pieces = []; return; }
      if (tag === 'iframe' || tag === 'frame') { this.frame(node); return; }
      if (INTERACTIVE.has(role) && !(role === 'listbox' && tag !== 'select') && !(role === 'clickable' && node[$.querySelector](CONTROLS))) {
        const block = BLOCKS.has(tag);
        if (block) this.flush();
        this.piece(describe(node, role, this.filter === 'all'), numberOf(node));
        if (tag !== 'select' && node[$.firstElementChild] && (role !== 'textbox')) {
          for (const inner of node[$.querySelectorAll](CONTROLS)) if (visibility(inner) === 'yes' && inner[$.parentElement][$.closest](CONTROLS) === node) this.visit(inner);
        }
        if (block) this.flush();
        return;
      }
      if (role === 'row') { this.row(node); return; }
      if (role === 'heading') {
        this.flush();
        const level = levelOf(node);
        if (this.filter === 'interactive') {
          const name = textOf(node, 100);
          if (node[$.querySelector](CONTROLS)) { this.piece('h' + level); this.children(node); this.flush(); }
          else if (name) { this.headers = this.headers.filter((it) => !it.heading); this.headers.push({ line: 'h' + level + ' ' + quote(name, 100), indent: this.indent, written: false, heading: true }); }
          return;
        }
        this.piece('h' + level);
        this.children(node);
        this.flush();
        return;
      }
      if (role === 'image') {
        const name = nameOf(node, role);
        if (name && this.filter === 'all') this.piece('image ' + quote(name));
        return;
      }
      if (tag === 'svg') return;
      if (tag === 'details' && !node.open) {
        this.flush();
        for (const child of node[$.children]) if (child[$.localName] === 'summary') this.visit(child);
        this.flush();
        return;
      }
      if (role === 'progressbar' || role === 'meter') { this.piece(role + ' ' + quote(nameOf(node, role)) + statesOf(node, role)); return; }
      if (CONTAINERS.has(role) || tag === 'fieldset') { this.container(node, role || 'group'); return; }
      const block = BLOCKS.has(tag);
      if (block) this.flush();
      if (this.cells && block && this.pieces.length) this.text(' ');
      this.children(node);
      if (block) this.flush();
    }

    container(node, role) {
      const name = nameOf(node, role);
      const number = numberOf(node);
      refs.get(number).label = role + ' ' + quote(name, 60);
      let line = role + (name ? ' ' + quote(name, 80) : '') + ' e' + number;
      if (role === 'table' || role === 'grid') {
        const rows = node[$.localName] === 'table' ? node.rows.length : node[$.querySelectorAll]('[role=row]').length;
        line += ` ${rows} rows`;
      }
      if (node[$.scrollHeight] > node[$.clientHeight] + 40 && getComputedStyle(node).overflowY !== 'visible') line += ' [scrolls]';
      this.open(line);
      if (this.depth && this.headers.length >= this.depth) {
        const inside = node[$.querySelectorAll](CONTROLS).length;
        this.piece(`… (${inside} controls inside; read_page with ref e${number})`);
      } else {
        this.children(node);
      }
      this.close();
      // A heading inside does not hold for what follows.
      this.headers = this.headers.filter((it) => !it.heading || it.indent <= this.indent);
    }

    row(node) {
      if (this.cells) { this.children(node); return; }
      this.flush();
      const cells = [];
      const max = this.filter === 'interactive' ? 40 : 200;
      const had = this.after !== null;
      for (const cell of childrenOf(node)) {
        if (cell[$.nodeType] !== 1 || SKIPPED.has(cell[$.localName]) || visibility(cell) === 'no') continue;
        this.cells = cells;
        this.pieces = [];
        this.children(cell);
        // A cell that is itself a control.
        const role = roleOf(cell);
        if (role === 'clickable') this.piece('clickable e' + numberOf(cell), numberOf(cell));
        cells.push({ text: this.joined(max), numbers: this.pieces.filter((it) => it.number) });
      }
      this.cells = null;
      this.pieces = [];
      const numbers = cells.flatMap((it) => it.numbers);
      if (had && this.after === null) return;
      if (this.filter === 'interactive' && !numbers.length) return;
      const own = roleOf(node) === 'clickable' || node[$.hasAttribute]('onclick') || hasOwnPointer(node);
      let line = (own ? 'row e' + numberOf(node) + ' ' : 'row ') + cells.map((it) => it.text).join(' | ');
      if (node[$.getAttribute]('aria-selected') === 'true') line += ' [selected]';
      if (cells.some((it) => it.text)) this.write(line, numbers);
    }

    frame(node) {
      this.flush();
      const number = numberOf(node);
      const name = nameOf(node, 'iframe');
      refs.get(number).label = 'iframe ' + quote(name, 60);
      const rect = node[$.getBoundingClientRect]();
      if (rect.width < 2 || rect.height < 2) return;
      this.write('iframe ' + (name ? quote(name, 80) + ' ' : '') + 'e' + number, []);
      if (this.after) return;
      if (this.frames.length < 30) {
        this.frames.push(number);
        this.lines.push('\u0001' + number + '\u0001' + (this.indent + 1));
      }
    }
  }

  function elementOf(number) {
    const entry = refs.get(number);
    return entry && entry.element.deref();
  }

  function snapshot(options) {
    const root = options.root ? elementOf(options.root) : document[$.body] || document[$.documentElement];
    if (!root || !root[$.isConnected]) return { gone: true };
    const writer = new Writer({ ...options, after: options.after ? elementOf(options.after) : null });
    try {
      if (root[$.localName] === 'tr') writer.row(root);
      else if (options.root && INTERACTIVE.has(roleOf(root))) writer.visit(root);
      else writer.children(root);
      writer.flush();
    } catch (error) {
      if (error !== STOP) throw error;
    }
    const all = root[$.querySelectorAll](CONTROLS).length;
    return {
      text: writer.lines.join('\n'), stopped: writer.stopped, controls: writer.controls, all, lastRef: writer.lastRef, frames: writer.frames,
      scrollTop: Math.round(scrollY), scrollHeight: document[$.documentElement] ? document[$.documentElement][$.scrollHeight] : 0, height: innerHeight, closed: closedHosts(),
    };
  }

  // Elements that may have a closed shadow root, which a script cannot see.
  function closedHosts() {
    const hosts = [];
    const roots = [document];
    for (let at = 0; at < roots.length && at < 500; at++) for (const element of roots[at][$.querySelectorAll]('*')) {
      if (hosts.length >= 20) break;
      const known = rootOf(element);
      if (known) { roots.push(known); continue; }
      const custom = element[$.localName].includes('-');
      const empty = (element[$.localName] === 'div' || element[$.localName] === 'span' || element[$.localName] === 'section') && !element[$.firstChild];
      if (!custom && !empty) continue;
      if (asked.has(element) || !element[$.checkVisibility]()) continue;
      const rect = element[$.getBoundingClientRect]();
      if (rect.width < 8 || rect.height < 8) continue;
      asked.add(element);
      hosts.push(numberOf(element));
    }
    return hosts;
  }
  const asked = new WeakSet();

  function adoptRoot(number, root) {
    const host = elementOf(number);
    if (host) closedRoots.set(host, root);
  }

  // Calls a function for every element, in order; ends when it returns true.
  function eachElement(root, visit) {
    const stack = [childrenOf(root)];
    const places = [0];
    while (stack.length) {
      const top = stack.length - 1;
      const at = places[top]++;
      const child = stack[top][at];
      if (!child) { stack.pop(); places.pop(); continue; }
      if (child[$.nodeType] !== 1 || SKIPPED.has(child[$.localName])) continue;
      if (visit(child)) return;
      if (child[$.firstChild] || rootOf(child) || child[$.localName] === 'slot') { stack.push(childrenOf(child)); places.push(0); }
    }
  }

  // Everything that an element may be found by: cheap, and more than its name.
  function wordsOf(element, role, isControl) {
    const tag = element[$.localName];
    let words = '';
    const label = element[$.getAttribute]('aria-label');
    if (label) words += label + ' ';
    if (tag === 'input' || tag === 'textarea' || tag === 'select') {
      if (tag === 'select') for (const option of [...element.options].slice(0, 300)) words += option.label + ' ';
      else if (element.type !== 'password') words += element.value + ' ';
      const placeholder = element[$.getAttribute]('placeholder');
      if (placeholder) words += placeholder + ' ';
      for (const it of labelsOf(element)) words += it[$.textContent] + ' ';
    } else if (isControl || role === 'heading' || role === 'row' || role === 'cell') {
      words += element[$.textContent].slice(0, 600) + ' ';
      if (isControl) for (const picture of element[$.getElementsByTagName]('img')) words += picture.alt + ' ';
    } else if (tag === 'img') {
      words += element.alt + ' ';
    } else {
      for (let child = element[$.firstChild]; child; child = child[$.nextSibling]) if (child[$.nodeType] === 3) words += child.data + ' ';
    }
    const title = element[$.getAttribute]('title');
    if (title) words += title + ' ';
    if (element[$.hasAttribute]('aria-labelledby')) words += nameOf(element, role);
    return squeeze(words.slice(0, 3000));
  }

  function find(options) {
    const wanted = options.role ? options.role.toLowerCase() : '';
    let test = () => true;
    if (options.pattern) {
      const pattern = new RegExp(options.pattern, 'iu');
      test = (words, element, role) => pattern.test(words) || (role === 'link' && pattern.test(element.href));
    } else if (options.text) {
      const text = squeeze(options.text).toLowerCase();
      test = (words) => words.toLowerCase().includes(text);
    }
    const root = options.root ? elementOf(options.root) : document[$.documentElement];
    if (!root) return { gone: true };
    const controls = [];
    const texts = [];
    let total = 0;
    let seen = 0;
    let stopped = false;
    const deadline = performance.now() + 6000;
    eachElement(root, (element) => {
      if ((++seen & 127) === 0 && performance.now() > deadline) { stopped = true; return true; }
      const role = roleOf(element);
      if (wanted && role !== wanted && element[$.localName] !== wanted) return false;
      const isControl = INTERACTIVE.has(role);
      const words = wordsOf(element, role, isControl);
      // The text of a row or a cell is found where it is.
      if (!wanted && (!words || role === 'row' || role === 'cell') && !hasOwnText(element)) return false;
      if (!test(words, element, role) || visibility(element) !== 'yes') return false;
      total += 1;
      const list = isControl ? controls : texts;
      if (list.length < options.limit) list.push([element, role]);
      return false;
    });
    const chosen = [...controls, ...texts].slice(0, options.limit);
    const lines = chosen.map(([element, role]) => hitLine(element, role));
    return { text: lines.join('\n'), total, shown: chosen.length, stopped, closed: closedHosts() };
  }

  function hasOwnText(element) {
    for (let child = element[$.firstChild]; child; child = child[$.nextSibling]) if (child[$.nodeType] === 3 && child.data.trim()) return true;
    return false;
  }

  function hitLine(element, role) {
    let line;
    if (INTERACTIVE.has(role)) line = describe(element, role, true);
    else {
      const number = numberOf(element);
      const name = textOf(element, 200) || nameOf(element, role);
      refs.get(number).label = (role || 'text') + ' ' + quote(name, 60);
      line = (role === 'heading' ? 'h' + levelOf(element) : role || 'text') + ' ' + quote(name, 160) + ' e' + number;
    }
    const around = element[$.parentElement] && element[$.parentElement][$.closest]('tr,[role=row],li,[role=listitem],fieldset,form,dialog,[role=dialog],article,section[aria-label],nav');
    if (around && around !== element) {
      const tag = around[$.localName];
      const isRow = tag === 'tr' || tag === 'li' || around[$.getAttribute]('role') === 'row' || tag === 'article';
      const text = isRow ? textOf(around, 160) : nameOf(around, roleOf(around) || tag);
      if (text) line += ' in ' + (roleOf(around) || tagOf(around)) + ' ' + quote(text, 100);
    }
    return line;
  }

  function pageText(options) {
    const root = options.root ? elementOf(options.root) : null;
    if (options.root && !root) return { gone: true };
    let text = '';
    let part = 'page';
    if (root) text = root[$.innerText] || '';
    else if (document[$.body]) {
      for (const main of document[$.querySelectorAll]('main,[role=main],article')) {
        const it = main[$.innerText] || '';
        if (it.length > 200 && it.length > text.length) { text = it; part = 'main'; }
      }
      const whole = document[$.body][$.innerText] || '';
      if (options.whole || text.length < whole.length / 4) { text = whole; part = 'page'; }
      for (const element of document[$.querySelectorAll]('*')) {
        const shadow = rootOf(element);
        if (shadow && part === 'page') for (const child of shadow[$.children]) if (child[$.innerText] && !text.includes(child[$.innerText])) text += '\n' + child[$.innerText];
      }
    }
    text = text.replace(/[ \t\u00a0]+/g, ' ').replace(/ *\n */g, '\n').replace(/\n{3,}/g, '\n\n').trim();
    return { text: text.slice(options.offset, options.offset + options.max), total: text.length, part, closed: closedHosts() };
  }

  function hasText(text) {
    const wanted = squeeze(text).toLowerCase();
    const has = (it) => squeeze(it || '').toLowerCase().includes(wanted);
    if (document[$.body] && has(document[$.body][$.innerText])) return true;
    for (const element of document[$.querySelectorAll]('*')) {
      const root = rootOf(element);
      if (root) for (const child of root[$.children]) if (has(child[$.innerText])) return true;
      if (element[$.localName] === 'input' && element.type !== 'password' && has(element.value)) return true;
    }
    return false;
  }

  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const frameTick = () => new Promise((resolve) => { const timer = setTimeout(resolve, 50); requestAnimationFrame(() => { clearTimeout(timer); resolve(); }); });

  const labelOf = (number) => (refs.get(number) ? refs.get(number).label || 'e' + number : 'e' + number);

  function deepest(x, y) {
    let hit = document[$.elementFromPoint](x, y);
    while (hit) {
      const root = rootOf(hit);
      const inner = root && root[$.elementFromPoint](x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  }

  function parentOf(node) {
    return node[$.assignedSlot] || node[$.parentNode] || node[$.host] || null;
  }

  function contains(outer, inner) {
    for (let it = inner; it; it = parentOf(it)) if (it === outer) return true;
    return false;
  }

  function receives(element, hit) {
    if (!hit) return false;
    if (contains(element, hit)) return true;
    // A click on a label is one on its field.
    const label = hit[$.closest] && hit[$.closest]('label');
    if (label && label.control === element) return true;
    return labelsOf(element).some((it) => contains(it, hit));
  }

  function shortly(element) {
    const role = roleOf(element) || tagOf(element);
    const id = /^[\w-]{1,30}$/.test(element[$.id]) ? '#' + element[$.id] : '';
    const text = textOf(element, 60);
    return role + id + (text ? ' ' + quote(text, 50) : '') + ' e' + numberOf(element);
  }

  function boxOf(element) {
    for (const rect of element[$.getClientRects]()) if (rect.width > 0.5 && rect.height > 0.5) return rect;
    return null;
  }

  // Scrolls an element into view and finds a point where a click reaches it.
  async function locate(number, options) {
    const element = elementOf(number);
    if (!element) return { state: 'unknown', what: 'e' + number };
    const what = labelOf(number);
    const deadline = performance.now() + options.patience;
    let result = { state: 'invisible', what };
    for (;;) {
      if (!element[$.isConnected]) return { state: 'removed', what };
      result = attempt(element, what, options);
      if (result.state === 'ok' && document[$.getAnimations] && document[$.getAnimations]().length) {
        const { x, y } = result;
        await frameTick();
        const again = attempt(element, what, options);
        if (again.state !== 'ok' || Math.abs(again.x - x) > 1 || Math.abs(again.y - y) > 1) result = { state: 'moving', what };
      }
      if (result.state === 'ok' || performance.now() > deadline) break;
      await frameTick();
      await pause(30);
    }
    return result;
  }

  function attempt(element, what, options) {
    let target = element;
    let box = boxOf(target);
    const tiny = box && (box.width < 3 || box.height < 3);
    if ((!box || tiny || getComputedStyle(element).opacity === '0') && labelsOf(element).length) {
      const label = labelsOf(element).find((it) => boxOf(it));
      if (label && (!box || tiny)) { target = label; box = boxOf(label); }
    }
    if (!box || visibility(target) === 'no' || getComputedStyle(target).visibility !== 'visible') return { state: 'invisible', what };
    if (options.enabled && isDisabled(element)) return { state: 'disabled', what };
    const isOut = (it) => it.left < 0 || it.top < 0 || it.right > innerWidth || it.bottom > innerHeight;
    if (isOut(box) || !receives(target, deepest(box.left + box.width / 2, box.top + box.height / 2))) {
      target[$.scrollIntoView]({ block: 'center', inline: 'nearest', behavior: 'instant' });
      box = boxOf(target);
      if (!box) return { state: 'invisible', what };
    }
    const left = Math.max(box.left, 0);
    const right = Math.min(box.right, innerWidth);
    const top = Math.max(box.top, 0);
    const bottom = Math.min(box.bottom, innerHeight);
    if (right <= left || bottom <= top) return { state: 'invisible', what };
    let cover = null;
    for (const [fx, fy] of [[0.5, 0.5], [0.25, 0.5], [0.75, 0.5], [0.5, 0.25], [0.5, 0.75], [0.1, 0.1]]) {
      const x = left + (right - left) * fx;
      const y = top + (bottom - top) * fy;
      const hit = deepest(x, y);
      if (receives(target, hit)) return { state: 'ok', what, x, y, kind: kindOf(element), focusable: element[$.matches]('input,textarea,select,[contenteditable]') };
      cover = cover || hit;
    }
    return { state: 'covered', what, cover: cover ? shortly(cover) : 'something outside the page' };
  }

  function kindOf(element) {
    if (element[$.localName] === 'select') return 'select';
    if (element[$.localName] === 'option') return 'option';
    if (element[$.localName] === 'input') return element.type === 'file' ? 'file' : element.type;
    if (element[$.localName] === 'textarea') return 'text';
    return element[$.isContentEditable] ? 'editable' : element[$.localName];
  }

  // Gives a field the focus, with its text selected or the caret at its end.
  function focusField(number, replace) {
    const element = elementOf(number);
    if (!element || !element[$.isConnected]) return { state: 'removed', what: labelOf(number) };
    const what = labelOf(number);
    let field = element;
    const editable = 'input,textarea,[contenteditable=""],[contenteditable=true],[contenteditable=plaintext-only]';
    if (!field[$.matches](editable) && !field[$.isContentEditable]) {
      const inner = (rootOf(field) || field)[$.querySelector](editable);
      if (inner) field = inner;
    }
    const kind = kindOf(field);
    if (isDisabled(field)) return { state: 'disabled', what };
    if (field.readOnly) return { state: 'readonly', what };
    if (visibility(field) === 'no') return { state: 'invisible', what };
    if (['checkbox', 'radio', 'button', 'submit', 'reset', 'image', 'file'].includes(kind) || field[$.localName] === 'select') return { state: 'wrong', what, kind };
    const text = field[$.localName] === 'textarea' || field[$.localName] === 'input';
    field[$.scrollIntoView]({ block: 'nearest', inline: 'nearest', behavior: 'instant' });
    field[$.focus]({ preventScroll: true });
    const active = field[$.getRootNode]()[$.activeElement];
    if (active !== field && !field[$.contains](active)) return { state: 'unfocused', what, kind };
    if (text) {
      if (replace) field.select();
      else try { const end = field.value.length; field.setSelectionRange(end, end); } catch { /* Fields such as e-mail have no selection. */ }
    } else if (field[$.isContentEditable]) {
      const range = document[$.createRange]();
      range.selectNodeContents(field);
      if (!replace) range.collapse(false);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
    }
    return { state: 'ok', what, kind, native: ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'].includes(kind), empty: text ? field.value === '' : field[$.innerText] === '' };
  }

  function fieldOf(number) {
    const element = elementOf(number);
    if (!element) return null;
    if (element[$.matches]('input,textarea,select') || element[$.isContentEditable]) return element;
    return (rootOf(element) || element)[$.querySelector]('input,textarea,[contenteditable]') || element;
  }

  function valueOf(number) {
    const field = fieldOf(number);
    if (!field) return { gone: true };
    if (field[$.localName] === 'select') return { value: [...field.selectedOptions].map((it) => squeeze(it.label)).join(', ') };
    if (field.type === 'password') return { length: field.value.length, secret: true };
    if (field.type === 'checkbox' || field.type === 'radio') return { checked: field.checked };
    const value = field.value !== undefined ? field.value : field[$.innerText] || '';
    return { value: cut(value, 2000), length: value.length };
  }

  // Sets a field that takes no typing, such as a date.
  function setNative(number, value) {
    const field = fieldOf(number);
    if (!field) return { gone: true };
    const setter = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
    setter.call(field, value);
    field[$.dispatchEvent](new Event('input', { bubbles: true, composed: true }));
    field[$.dispatchEvent](new Event('change', { bubbles: true }));
    return { value: field.value };
  }

  function commit(number) {
    const field = fieldOf(number);
    if (field) field[$.dispatchEvent](new Event('change', { bubbles: true }));
  }

  function selectOptions(number, values) {
    const select = elementOf(number);
    if (!select || !select[$.isConnected]) return { state: 'removed', what: labelOf(number) };
    const what = labelOf(number);
    if (select[$.localName] !== 'select') return { state: 'wrong', what, kind: roleOf(select) || tagOf(select) };
    if (isDisabled(select)) return { state: 'disabled', what };
    const options = [...select.options];
    const chosen = [];
    for (const value of values) {
      const text = squeeze(value);
      const found = options.find((it) => it.value === value) || options.find((it) => squeeze(it.label) === text) || options.find((it) => squeeze(it.label).toLowerCase() === text.toLowerCase());
      if (!found) return { state: 'missing', what, value, options: options.slice(0, 30).map((it) => squeeze(it.label)), count: options.length };
      if (found.disabled || (found[$.parentElement] && found[$.parentElement].disabled)) return { state: 'disabled', what: what + ' option ' + quote(found.label, 40) };
      chosen.push(found);
    }
    if (!select.multiple && chosen.length > 1) return { state: 'single', what };
    select[$.focus]({ preventScroll: true });
    if (select.multiple) options.forEach((it) => { it.selected = chosen.includes(it); });
    else if (chosen.length) chosen[0].selected = true;
    select[$.dispatchEvent](new Event('input', { bubbles: true, composed: true }));
    select[$.dispatchEvent](new Event('change', { bubbles: true }));
    return { state: 'ok', what, value: [...select.selectedOptions].map((it) => squeeze(it.label)).join(', ') };
  }

  function scrollableOf(element, dx, dy) {
    for (let it = element; it && it[$.nodeType] === 1; it = it[$.assignedSlot] || it[$.parentElement] || (it[$.getRootNode]() && it[$.getRootNode]()[$.host])) {
      if (it === document[$.documentElement] || it === document[$.body]) break;
      const style = getComputedStyle(it);
      const vertical = dy && it[$.scrollHeight] > it[$.clientHeight] + 1 && /auto|scroll|overlay/.test(style.overflowY);
      const horizontal = dx && it[$.scrollWidth] > it[$.clientWidth] + 1 && /auto|scroll|overlay/.test(style.overflowX);
      if (vertical || horizontal) return it;
    }
    return document[$.scrollingElement] || document[$.documentElement];
  }

  function scroll(options) {
    const element = options.ref ? elementOf(options.ref) : null;
    if (options.ref && (!element || !element[$.isConnected])) return { state: 'removed', what: labelOf(options.ref) };
    if (options.ref && !options.dx && !options.dy && !options.to) {
      element[$.scrollIntoView]({ block: 'center', inline: 'nearest', behavior: 'instant' });
      return { state: 'ok', what: labelOf(options.ref), into: true };
    }
    const start = element || deepest(innerWidth / 2, innerHeight / 2);
    const wanted = options.to ? 1 : options.dy;
    let box = scrollableOf(start, options.dx, wanted);
    const page = document[$.scrollingElement] || document[$.documentElement];
    if (!options.ref && page[$.scrollHeight] > innerHeight + 1) box = page;
    const before = [box[$.scrollLeft], box[$.scrollTop]];
    if (options.to === 'top') box[$.scrollTo]({ top: 0, behavior: 'instant' });
    else if (options.to === 'bottom') box[$.scrollTo]({ top: box[$.scrollHeight], behavior: 'instant' });
    else box[$.scrollBy]({ left: options.dx, top: options.dy, behavior: 'instant' });
    return {
      state: 'ok', moved: box[$.scrollLeft] !== before[0] || box[$.scrollTop] !== before[1], top: Math.round(box[$.scrollTop]), height: box[$.scrollHeight],
      view: box === document[$.scrollingElement] ? innerHeight : box[$.clientHeight], what: box === document[$.scrollingElement] ? 'the page' : shortly(box),
    };
  }

  // Whether a place of a frame's document, which the frame's element shows, can be reached there, and where it is out here.
  // Brings it into view.
  async function framePlace(owner, x, y) {
    const at = () => {
      const box = owner[$.getBoundingClientRect]();
      const style = getComputedStyle(owner);
      return { x: box.left + owner[$.clientLeft] + (parseFloat(style.paddingLeft) || 0) + x, y: box.top + owner[$.clientTop] + (parseFloat(style.paddingTop) || 0) + y, cover: null };
    };
    const isOut = (it) => it.x < 0 || it.y < 0 || it.x >= innerWidth || it.y >= innerHeight;
    let place = at();
    if (isOut(place)) {
      owner[$.scrollIntoView]({ block: 'center', inline: 'nearest', behavior: 'instant' });
      place = at();
      if (isOut(place)) {
        scrollBy({ left: place.x - innerWidth / 2, top: place.y - innerHeight / 2, behavior: 'instant' });
      }
      // The browser has to know where frames are now.
      await frameTick();
      await frameTick();
      place = at();
    }
    for (let it = owner; it; ) {
      const root = it[$.getRootNode]();
      const hit = root[$.elementFromPoint](place.x, place.y);
      if (hit !== it) { place.cover = hit ? shortly(hit) : 'something outside the page'; break; }
      it = root[$.host];
    }
    return place;
  }

  function boxFor(number) {
    const element = elementOf(number);
    if (!element || !element[$.isConnected]) return { state: 'removed', what: labelOf(number) };
    element[$.scrollIntoView]({ block: 'nearest', inline: 'nearest', behavior: 'instant' });
    const box = element[$.getBoundingClientRect]();
    return { state: box.width && box.height ? 'ok' : 'invisible', what: labelOf(number), x: box.x, y: box.y, width: box.width, height: box.height };
  }

  function pageInfo() {
    const root = document[$.scrollingElement] || document[$.documentElement];
    return { width: innerWidth, height: innerHeight, fullWidth: root ? root[$.scrollWidth] : innerWidth, fullHeight: root ? root[$.scrollHeight] : innerHeight, x: scrollX, y: scrollY, ratio: devicePixelRatio, title: document[$.title] };
  }

  // Resolves once the page has drawn; says whether its window is about to close.
  const settled = () => new Promise((resolve) => {
    const done = () => resolve({ closing: window.closed });
    const timer = setTimeout(done, 100);
    requestAnimationFrame(() => setTimeout(() => { clearTimeout(timer); done(); }, 0));
  });

  const functions = { snapshot, find, pageText, hasText, locate, focusField, valueOf, setNative, commit, selectOptions, scroll, boxFor, framePlace, pageInfo, settled, describe: (number) => shortly(elementOf(number)) };

  // Calls a function; new elements get numbers from `start` on, which no other document of the tab has used.
  async function run(start, name, ...values) {
    nextRef = Math.max(nextRef, start);
    labelMaps = new Map();
    try {
      const value = await functions[name](...values);
      return { value, next: nextRef };
    } catch (error) {
      return { error: String(error && error.message || error), next: nextRef };
    }
  }

  Object.defineProperty(globalThis, '__swb', { value: Object.freeze({ run, element: elementOf, adoptRoot }) });
})();
