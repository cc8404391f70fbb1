/** Text that grows. What comes is appended to text nodes; nothing that stands is written again. */
import { Component, createRef } from "preact";
import { shown } from "../../shown";
import type { Part } from "../view/view";

const NODE = 4_096; // characters of one text node
const WINDOW = 24_000; // characters that are in the document, unless somebody wants all

interface Props {
  part: Part;
  all: boolean;
  /** Told how many characters at the beginning are left out. */
  onFolded: (count: number) => void;
}

export class Growing extends Component<Props> {
  readonly #box = createRef<HTMLSpanElement>();
  #written = "";
  #folded = 0;

  override shouldComponentUpdate(next: Props): boolean {
    if (next.part !== this.props.part || next.all !== this.props.all) this.#write(next);
    return false; // the document is written to by hand, below
  }

  override componentDidMount(): void {
    this.#write(this.props);
  }

  override render() {
    return <span ref={this.#box} />;
  }

  #write({ part, all, onFolded }: Props): void {
    const box = this.#box.current;
    if (!box) return;
    const text = part.limit === null ? part.text : part.text.slice(0, part.limit);
    if (all && this.#folded) this.#written = "";
    if (!this.#written || !text.startsWith(this.#written)) {
      box.replaceChildren();
      this.#folded = all ? 0 : Math.max(0, text.length - WINDOW);
      this.#written = text.slice(0, this.#folded);
    }
    this.#append(box, text.slice(this.#written.length));
    this.#written = text;
    if (!all) this.#fold(box);
    onFolded(this.#folded);
  }

  #append(box: HTMLElement, fresh: string): void {
    if (!fresh) return;
    const last = box.lastChild;
    const before = this.#written;
    if (last instanceof Text && last.length + fresh.length < NODE) {
      last.appendData(shown(fresh, before));
      return;
    }
    for (let at = 0; at < fresh.length; at += NODE) {
      box.append(shown(fresh.slice(at, at + NODE), at ? fresh.slice(0, at) : before));
    }
  }

  #fold(box: HTMLElement): void {
    let length = box.textContent?.length ?? 0;
    while (length > WINDOW + NODE && box.firstChild instanceof Text) {
      length -= box.firstChild.length;
      this.#folded += box.firstChild.length;
      box.firstChild.remove();
    }
  }
}
