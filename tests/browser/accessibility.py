"""axe-core on a page, which measures the contrast of every kind of text once instead of that of every piece of text."""

from __future__ import annotations

from typing import NamedTuple

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

LEVELS = ("wcag2a", "wcag2aa")
CODE = Axe().axe_script

# Measuring contrast takes nine tenths of the time, and a page of code and tables has thousands of texts that look
# alike. What axe computes it from (colour, size, weight and shadow of a text, and what lies behind it) names a kind.
# The first word of each kind is measured; where axe has no verdict on it (covered, clipped, a single letter), all
# the others are. Style sheets, which axe would fetch again for rules that are not among these, it does not load.
RUN = """async levels => {
  const behind = new Map([[null, '']]);
  const backdrop = element => {
    if (!behind.has(element)) {
      const style = getComputedStyle(element);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.clip, style.clipPath];
      if (['absolute', 'fixed', 'sticky'].includes(style.position)) own.push(style.position, style.zIndex);
      const plain = own.join() === 'rgba(0, 0, 0, 0),none,1,auto,none';
      behind.set(element, backdrop(element.parentElement) + (plain ? '' : `|${own.join()}`));
    }
    return behind.get(element);
  };
  const kinds = new Map();
  for (const element of document.body.querySelectorAll('*')) {
    if (element.shadowRoot) throw new Error('texts in a shadow tree are not among those whose contrast is measured');
    const control = element.matches('input, select, textarea, button');
    const text = control || [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!text || !element.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(element);
    const look = [style.color, style.fontSize, style.fontWeight, style.textShadow, style.textIndent, backdrop(element)];
    const kind = control ? element : look.join(';');
    kinds.set(kind, [...(kinds.get(kind) ?? []), element]);
  }
  const measured = 'data-contrast-is-measured';
  const measure = elements => elements.forEach(element => element.setAttribute(measured, ''));
  const clear = () => document.querySelectorAll(`[${measured}]`).forEach(one => one.removeAttribute(measured));
  axe.configure({rules: [{id: 'color-contrast', selector: `[${measured}]`}]});
  const run = only => axe.run({
    runOnly: only, resultTypes: ['violations', 'passes'], elementRef: true, preload: {assets: ['media']},
  });

  clear();
  const word = element => element.textContent.trim().length > 1;
  kinds.forEach(same => same.sort((one, other) => word(other) - word(one)));
  kinds.forEach(([first]) => measure([first]));
  const report = await run(levels);
  const found = [...report.violations];
  const verdicts = [...report.passes, ...report.violations].filter(one => one.id === 'color-contrast');
  const decided = new Set(verdicts.flatMap(one => one.nodes.map(node => node.element)));
  clear();
  const open = [...kinds.values()].filter(([first, ...others]) => others.length && !decided.has(first));
  open.forEach(([_, ...others]) => measure(others));
  if (open.length) found.push(...(await run(['color-contrast'])).violations);
  clear();
  return found.map(one => ({id: one.id, impact: one.impact, places: one.nodes.map(node => node.html.slice(0, 200))}));
}"""


class Violation(NamedTuple):
    """One rule of axe-core that a page breaks, and the markup of the places where it does."""

    rule: str
    impact: str
    places: list[str]


def violations(page: Page) -> list[Violation]:
    """What axe-core finds on the page as it looks now, by the rules of WCAG 2 of levels A and AA."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(CODE)
    return [Violation(one["id"], one["impact"], one["places"]) for one in page.evaluate(RUN, list(LEVELS))]
