// Elements. Whatever comes from a cluster is a text node or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

// Characters that are not seen, or that turn others round, are written out.
export const plain = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

const make = (space) => (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, plain(value));
  }
  for (const child of children.flat()) {
    if (child != null && child !== false) element.append(child instanceof Node ? child : plain(child));
  }
  return element;
};

export const h = make("http://www.w3.org/1999/xhtml");
export const svg = make(SVG);

// Leaves a node alone that has this text already, so that a reader's place in it is kept.
export function setText(node, text) {
  const shown = plain(text);
  if (node.textContent !== shown) node.textContent = shown;
}

export function setAttribute(node, name, value) {
  const shown = plain(value);
  if (node.getAttribute(name) !== shown) node.setAttribute(name, shown);
}

// Makes the children of a parent those of these items, in their order. An item that stays keeps its element, and so its
// focus. `create` makes an element, `update` fills it.
export function sync(parent, items, keyOf, create, update = () => {}) {
  const present = new Map([...parent.children].map((child) => [child.syncKey, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let element = present.get(key);
    if (element) present.delete(key);
    else {
      element = create(item);
      element.syncKey = key;
    }
    update(element, item);
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const element of present.values()) element.remove();
}

export const table = (caption, heads, rows) =>
  h("table", { class: "plain" },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))))));
