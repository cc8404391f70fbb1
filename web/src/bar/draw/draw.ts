/** Draws the bar: makes what is there like what is wanted, and leaves alone what already is.
 *
 * The bar is a guest in other people's pages, so it brings no framework: this is all it needs of one. Components are
 * functions without state. Text is only ever text. An element stays the same one as long as its place (or key) does,
 * so focus, selection and what is being typed survive. */

type Props = Record<string, unknown>;
type Component = (props: Props) => Wanted;

export interface WantedElement {
  type: string | Component;
  props: Props;
  key: string | undefined;
}

export type Wanted = WantedElement | string | number | boolean | null | undefined | Wanted[];

const SVG = "http://www.w3.org/2000/svg";
const names = new WeakMap<Node, string>();
const given = new WeakMap<Node, Props>();

export function draw(wanted: Wanted, parent: Node): void {
  const before = new Map(Array.from(parent.childNodes, (node) => [names.get(node), node]));
  let next = parent.firstChild;
  for (const [name, one] of named(wanted, "")) {
    const found = before.get(name);
    const node = found ?? make(one, parent);
    names.set(node, name);
    before.delete(name);
    if (node === next) next = node.nextSibling;
    else parent.insertBefore(node, next);
    update(node, one);
  }
  for (const gone of before.values()) (gone as ChildNode).remove();
}

/** Each element or text with a name that it keeps from one drawing to the next: where it stands, what it is. */
function* named(wanted: Wanted, place: string): Generator<[string, WantedElement | string]> {
  if (Array.isArray(wanted)) {
    for (const [at, one] of wanted.entries()) yield* named(one, `${place}.${at}`);
  } else if (typeof wanted === "string" || typeof wanted === "number") {
    yield [`${place}#`, String(wanted)];
  } else if (wanted && typeof wanted === "object") {
    const here = wanted.key === undefined ? place : `${place.slice(0, place.lastIndexOf("."))}=${wanted.key}`;
    if (typeof wanted.type === "function") yield* named(wanted.type(wanted.props), `${here}/${wanted.type.name}`);
    else yield [`${here}<${wanted.type}`, wanted];
  }
}

function make(wanted: WantedElement | string, parent: Node): Node {
  if (typeof wanted === "string") return document.createTextNode(wanted);
  const type = wanted.type as string;
  const isDrawing = type === "svg" || (parent as Element).namespaceURI === SVG;
  return isDrawing ? document.createElementNS(SVG, type) : document.createElement(type);
}

function update(node: Node, wanted: WantedElement | string): void {
  if (typeof wanted === "string") {
    if (node.nodeValue !== wanted) node.nodeValue = wanted;
    return;
  }
  const before = given.get(node) ?? {};
  given.set(node, wanted.props);
  for (const name of new Set([...Object.keys(before), ...Object.keys(wanted.props)])) {
    const value = wanted.props[name];
    if (name !== "children" && (name === "value" || value !== before[name])) set(node as HTMLElement, name, value);
  }
  draw(wanted.props["children"] as Wanted, node);
}

function set(element: HTMLElement, name: string, value: unknown): void {
  if (name.startsWith("on")) {
    Reflect.set(element, name.toLowerCase(), value ?? null);
  } else if (name === "value") {
    if (Reflect.get(element, name) !== value) Reflect.set(element, name, value);
  } else if (value === undefined || value === null || (value === false && !name.startsWith("aria-"))) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, String(value));
  }
}
