/** How a request can go wrong: it was refused, in the server's own words, or nobody answered. */

import type { Ack, Problem } from "./types";

/** A sentence of the library, for somebody who looks at a page: there is a button for what it names a command for. */
export function forPages(said: string): string {
  return said.replace(/Somebody has to release it first: pullcord .*$/, "Release it first; that is for admins.");
}

/** The server answered, and said no. `message` is its own sentence, to be shown as it is. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  /** Of a command that came too late or was rejected. */
  readonly ack: Ack | undefined;

  constructor(problem: Problem) {
    super(forPages(problem.detail || problem.title));
    this.name = "Refused";
    this.status = problem.status;
    this.code = problem.code;
    this.detail = this.message;
    this.ack = problem.ack?.message ? { ...problem.ack, message: forPages(problem.ack.message) } : problem.ack;
  }
}

/** No answer came. What was asked may have been carried out all the same. */
export class Unanswered extends Error {
  constructor(cause: unknown) {
    super("The server does not answer.", { cause });
    this.name = "Unanswered";
  }
}

/** Returns the error for an answer that is not a success, whatever its body is. */
export async function refusal(response: Response): Promise<Refused> {
  const plain: Problem = {
    type: "about:blank",
    title: response.statusText || "Refused",
    status: response.status,
    detail: `The server answered ${response.status}${response.statusText && ` (${response.statusText})`}.`,
    code: "",
  };
  try {
    const said: unknown = await response.json();
    return new Refused(typeof said === "object" && said !== null ? { ...plain, ...said } : plain);
  } catch {
    return new Refused(plain);
  }
}
