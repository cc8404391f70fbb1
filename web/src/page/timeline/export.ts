/** The picture as a file of its own: what it looks like is written into it, and nothing is fetched. */

const LOOKS = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
];

export function asFile(picture: SVGSVGElement): Blob {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  copyLooks(picture, copy);
  copy.removeAttribute("class");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(picture).backgroundColor);
  copy.insertBefore(ground, copy.querySelector("defs"));
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

function copyLooks(from: Element, to: Element): void {
  const look = getComputedStyle(from);
  for (const name of LOOKS) {
    const value = look.getPropertyValue(name);
    if (value && !(name === "fill" && to.getAttribute("fill")?.startsWith("url(")))
      to.setAttribute(name, value);
  }
  to.removeAttribute("class");
  for (let n = 0; n < from.children.length; n++) copyLooks(from.children[n]!, to.children[n]!);
}

export function save(file: Blob, name: string): void {
  const url = URL.createObjectURL(file);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
