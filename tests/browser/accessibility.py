"""axe-core on a page, which looks at every kind of text, formula and code once instead of at every single one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

LEVELS = ("wcag2a", "wcag2aa")
LOOKS = ("color-contrast", "link-in-text-block", "image-alt", "svg-img-alt")  # rules that a theme can break
CODE = Axe().axe_script

# A page of code and formulas has ten thousand elements that look alike, and axe takes milliseconds for each. What it
# computes contrast from (colour, size, weight and shadow of a text, and what lies behind it) names a kind of text. Five
# words of each kind are measured, and all where there are few; where axe has no verdict on them (covered, a single
# letter), all the others are. Texts that are clipped away, for screen readers alone, have no contrast. Links are of a
# kind if they and the texts about them look alike. Kinds that passed on another page need not be measured again: it is
# for these two rules that axe finds out what lies where, which takes longer than all others together. While axe runs,
# an empty box of the same size stands for each formula and each block of code that has no such word and no markup which
# another has not: elements, attributes and roles, and whether it scrolls. Style sheets, which axe would fetch again for
# rules that are not among these, it does not load.
RUN = """async ([rules, before]) => {
  const known = new Set(before);
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
  const shown = ':not(mjx-container *), mjx-container :not(mjx-assistive-mml *)';
  for (const element of document.body.querySelectorAll(shown)) {
    if (element.shadowRoot) throw new Error('texts in a shadow tree are not among those whose contrast is measured');
    const control = element.matches('input, select, textarea, button');
    const text = control || [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!text || !element.checkVisibility({visibilityProperty: true})) continue;
    const style = getComputedStyle(element);
    const look = [style.color, style.fontSize, style.fontWeight, style.textShadow, style.textIndent, backdrop(element)];
    if (/rect\\(|inset\\(/.test(look.at(-1))) continue;
    if (control) look.push(element.outerHTML);
    const kind = look.join(';');
    if (!known.has(kind)) kinds.set(kind, [...(kinds.get(kind) ?? []), element]);
  }
  const ofLink = element => {
    const style = getComputedStyle(element);
    const own = [style.color, style.fontSize, style.fontWeight, style.fontStyle, style.fontFamily, style.borderBottom];
    own.push(style.textDecoration, style.backgroundColor, style.backgroundImage, style.display);
    return own.join() + (element === document.body ? '' : `|${ofLink(element.parentElement)}`);
  };
  const links = new Map();
  for (const link of document.body.querySelectorAll('a[href]')) {
    const kind = `link ${ofLink(link)}`;
    if (!known.has(kind)) links.set(kind, [...(links.get(kind) ?? []), link]);
  }
  const distinct = 'data-link-is-measured';
  [...links.values()].flat().forEach(link => link.setAttribute(distinct, ''));
  const measured = 'data-contrast-is-measured';
  const measure = elements => elements.forEach(element => element.setAttribute(measured, ''));
  const clear = () => document.querySelectorAll(`[${measured}]`).forEach(one => one.removeAttribute(measured));
  const run = only => axe.run({
    runOnly: only, resultTypes: ['violations', 'passes'], elementRef: true, preload: {assets: ['media']},
  });

  const seen = new Set();
  const mark = element => element.localName + [...element.attributes].map(({name, value}) =>
    name === 'role' || name === 'tabindex' ? `[${name}=${value}]` : `[${name}]`).join('');
  const isSeen = block => {
    const marks = [...block.querySelectorAll('*'), block].map(mark);
    marks.push(`${marks.at(-1)} ${block.scrollWidth > block.clientWidth}`);
    const fresh = marks.filter(one => !seen.has(one));
    fresh.forEach(one => seen.add(one));
    return !fresh.length;
  };
  const setAside = () => {
    const aside = [...document.querySelectorAll('mjx-container, .highlight pre')].filter(block =>
      !block.closest('a, button, label, summary') && !block.querySelector(`[${measured}]`) && isSeen(block));
    const boxes = aside.map(block => {
      const content = document.createRange();
      content.selectNodeContents(block);
      return content.getBoundingClientRect();
    });
    return aside.map((block, place) => {
      const box = document.createElement('span');
      box.style = `display: inline-block; width: ${boxes[place].width}px; height: ${boxes[place].height}px`;
      const content = [...block.childNodes];
      block.replaceChildren(box);
      return () => block.replaceChildren(...content);
    });
  };

  clear();
  axe.configure({rules: [
    {id: 'color-contrast', selector: `[${measured}]`}, {id: 'link-in-text-block', selector: `[${distinct}]`},
  ]});
  const some = [...kinds.values()].map(same => {
    const words = same.filter(element => element.textContent.trim().length > 1);
    const among = words.length ? words : same;
    return same.length <= 25 ? same : [0, 1, 2, 3, 4].map(part => among[(among.length - 1) * part >> 2]);
  });
  measure(some.flat());
  const bringBack = setAside();
  const report = await run(rules).finally(() => bringBack.forEach(back => back()));
  const found = [...report.violations];
  const elements = (ruled, rule) =>
    new Set(ruled.filter(one => one.id === rule).flatMap(one => one.nodes.map(node => node.element)));
  const decided = elements([...report.passes, ...report.violations], 'color-contrast');
  clear();
  document.querySelectorAll(`[${distinct}]`).forEach(link => link.removeAttribute(distinct));
  const open = [...kinds.values()].filter((same, place) =>
    same.length > 25 && !some[place].some(element => decided.has(element)));
  open.forEach(measure);
  if (open.length) found.push(...(await run(['color-contrast'])).violations);
  clear();
  const sound = (some, rule) => {
    const passed = elements(report.passes, rule), failed = elements(found, rule);
    return [...some].filter(([, same]) => same.some(one => passed.has(one)) && !same.some(one => failed.has(one)));
  };
  return {
    found: found.map(one => ({id: one.id, impact: one.impact, places: one.nodes.map(node => node.html.slice(0, 200))})),
    passed: [...sound(kinds, 'color-contrast'), ...sound(links, 'link-in-text-block')].map(([kind]) => kind),
  };
}"""


class Violation(NamedTuple):
    """One rule of axe-core that a page breaks, and the markup of the places where it does."""

    rule: str
    impact: str
    places: list[str]


def violations(page: Page, rules: Sequence[str] = LEVELS, passed: set[str] | None = None) -> list[Violation]:
    """What axe-core finds on the page as it looks now, by the rules of WCAG 2 of levels A and AA or by those named.

    passed: kinds of texts and links that passed on other pages, which are not measured again; those of this page are
    added.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(CODE)
    known = set() if passed is None else passed
    report = page.evaluate(RUN, [list(rules), sorted(known)])
    known.update(report["passed"])
    return [Violation(one["id"], one["impact"], one["places"]) for one in report["found"]]
