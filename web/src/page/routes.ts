/** Which screen the hash of the URL asks for. */

export type Route = { at: "list" } | { at: "run"; run: string } | { at: "inbox" } | { at: "start" };

const RUN = /^#\/runs\/([A-Za-z0-9][A-Za-z0-9_-]{0,63})$/;

export function routeOf(hash: string): Route {
  const run = RUN.exec(hash)?.[1];
  if (run) return { at: "run", run };
  if (hash === "#/inbox") return { at: "inbox" };
  if (hash === "#/start") return { at: "start" };
  return { at: "list" };
}

export function hrefOf(route: Route): string {
  switch (route.at) {
    case "run":
      return `#/runs/${route.run}`;
    case "list":
      return "#/";
    default:
      return `#/${route.at}`;
  }
}
