/** A view that is being changed. It copies what it changes, once; the view it came from stays. */
import { type Entry, empty, type Note, type Part, type Section, type Step, type View } from "./view";

type Collection = "steps" | "parts" | "notes" | "told" | "questions" | "children" | "attention" | "outputOf";
type Key<C extends Collection> = View[C] extends ReadonlyMap<infer K, unknown> ? K : never;
type Value<C extends Collection> = View[C] extends ReadonlyMap<unknown, infer V> ? V : never;

export class Draft {
  /** What people see while the view is changed. */
  readonly shown: View;
  readonly view: View;
  private readonly copied = new Set<string>();

  constructor(from: View, shown: View = from) {
    this.shown = shown;
    this.view = { ...from };
  }

  /** Let go of everything that was told; the run itself stays. */
  beginAnew(): void {
    Object.assign(this.view, empty(this.view.run), { panel: this.view.panel });
    this.copied.clear();
  }

  put<C extends Collection>(collection: C, key: Key<C>, value: Value<C>): void {
    this.writable(collection).set(key, value);
  }

  drop<C extends Collection>(collection: C, key: Key<C>): void {
    this.writable(collection).delete(key);
  }

  step(id: string, change: (step: Step) => Partial<Step>): void {
    const known = this.view.steps.get(id);
    if (known) this.put("steps", id, { ...known, ...change(known) });
  }

  part(id: string, change: Partial<Part>): void {
    const known = this.view.parts.get(id);
    if (known) this.put("parts", id, { ...known, ...change });
  }

  note(note: Note): void {
    this.put("notes", note.seq, note);
    this.add({ kind: "note", id: note.seq });
  }

  /** Put a line where the run is now; the step, if it is one, remembers where that was. */
  add(entry: Entry): void {
    this.section(this.view.current, (section) => ({ entries: this.appended(section.entries, entry) }));
  }

  /** Put a line before the pause or cancel that is being carried out: it was there when somebody pressed. */
  addBeforeStop(entry: Entry): void {
    const stop = this.view.stop?.seq;
    this.section(this.view.current, ({ entries }) => {
      const at = entries.findLastIndex((one) => one.kind === "note" && one.id === stop);
      return { entries: at < 0 ? this.appended(entries, entry) : entries.toSpliced(at, 0, entry) };
    });
  }

  section(index: number, change: (section: Section) => Partial<Section>): void {
    const sections = this.sections();
    const known = sections[index];
    if (known) sections[index] = { ...known, ...change(known) };
  }

  sections(): Section[] {
    if (!this.copied.has("sections")) {
      this.copied.add("sections");
      this.view.sections = [...this.view.sections];
    }
    return this.view.sections as Section[];
  }

  /** A longer list. One that was made by this draft may be changed in place: nobody else has it. */
  private readonly own = new WeakSet<readonly Entry[]>();

  private appended(entries: readonly Entry[], entry: Entry): readonly Entry[] {
    if (this.own.has(entries)) {
      (entries as Entry[]).push(entry);
      return entries;
    }
    const made = [...entries, entry];
    this.own.add(made);
    return made;
  }

  private writable<C extends Collection>(collection: C): Map<Key<C>, Value<C>> {
    if (!this.copied.has(collection)) {
      this.copied.add(collection);
      Object.assign(this.view, {
        [collection]: new Map(this.view[collection] as ReadonlyMap<Key<C>, Value<C>>),
      });
    }
    return this.view[collection] as unknown as Map<Key<C>, Value<C>>;
  }
}
