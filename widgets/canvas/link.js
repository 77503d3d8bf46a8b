// The state of a house outside of it: in the address of the page, and kept by the browser when a kernel stops.

const MARK = "ironworks", TAKEN = "ironworks-taken", LEFT = "ironworks-left";
const store = (() => { try { return globalThis.sessionStorage; } catch { return null; } })(); // a sandboxed page has none

/** The state in the address that this page was opened with; JupyterLab drops its end when it gives a second tab a workspace of its own. */
export function stateInAddress() {
  const opened = performance.getEntriesByType?.("navigation")[0]?.name ?? "";
  return [location.href, opened].map(inFragment).find(text => text && store?.getItem(TAKEN) !== text) ?? null;
}
const inFragment = address => new URLSearchParams(address.split("#")[1] ?? "").get(MARK);

/** It is not restored again: what was changed since would be lost when the page is loaded anew. */
export const taken = text => store?.setItem(TAKEN, text);

/** A link to a state: the address of the page, without what is of this browser alone. */
export function linkTo(text) {
  const url = new URL(location.href);
  url.pathname = url.pathname.replace(/\/workspaces\/auto-[^/]+/, "");
  for (const own of ["token", "reset", "clone"]) url.searchParams.delete(own);
  url.hash = `${MARK}=${text}`;
  return url.href;
}

/** The state in a text that is pasted: a link, its end, or a snapshot file; null in any other text. */
export function stateIn(text) {
  const said = text.trim();
  return inFragment(said) ?? (said.startsWith("{") && said.includes(`"${MARK}"`) ? said : null);
}

/** What a house of this model was set to when its kernel stopped, until it is brought back. */
export const leaveBehind = (name, state) => store?.setItem(`${LEFT} ${name}`, JSON.stringify(state));
export const leftBehind = name => store?.getItem(`${LEFT} ${name}`);
export const forget = name => store?.removeItem(`${LEFT} ${name}`);

const OWN = "ironworks-drawers";
const lasting = (() => { try { return globalThis.localStorage; } catch { return null; } })();

/** The drawers and the theme, as this reader left them. */
export function recall() { try { return JSON.parse(lasting?.getItem(OWN) ?? "{}") ?? {}; } catch { return {}; } }
export const storeLayout = own => { try { lasting?.setItem(OWN, JSON.stringify(own)); } catch { /* a full store forgets */ } };
