package pagetest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// faults finds what is wrong with how the page looks: it is wider than the window, text has less
// contrast than WCAG 2.2 asks for (1.4.3, 4.5 to 1), or a control has no name.
const faults = `(() => {
  const found = [], light = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const color = (text) => text.match(/[\d.]+/g).map(Number);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = color(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) found.push("wider than the window");
  for (const e of document.querySelectorAll("body *")) {
    if (e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) {
      const [a, b] = [light(color(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < 4.5) found.push("little contrast: " + e.outerHTML.slice(0, 80));
    }
    if (e.matches("a, button, input, select") && e.checkVisibility() && !(e.textContent.trim() || (e.labels || []).length)) found.push("no name: " + e.outerHTML);
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("an id is there twice");
  return found;
})()`

// reachable is whether what the keyboard is at is seen to be, and what it is.
const reachable = `(() => { const e = document.activeElement, s = getComputedStyle(e); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 ? "seen" : "unseen " + e.outerHTML.slice(0, 80); })()`

// In light and dark, narrow and wide windows the page can be read, and used by the keyboard.
func TestLooks(t *testing.T) {
	n := serve(t, "admin: 127.0.0.1:0\n")
	n.ask(t, "198.51.100.7", 60)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{400, 1280} {
			b := open(t, "http://"+n.admin+"/?key=198.51.100.7", chromedp.EmulateViewport(width, 900),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
			var found []string
			b.do(chromedp.Evaluate(faults, &found))
			if len(found) > 0 {
				t.Errorf("%s, %d wide: %q", scheme, width, found)
			}
			b.picture(fmt.Sprintf("%s-%d.png", scheme, width))
			b.keyboard()
			b.clean()
		}
	}
}

// keyboard goes through all controls by the keyboard.
func (b *browser) keyboard() {
	b.t.Helper()
	var controls int
	b.do(chromedp.Evaluate(`[...document.querySelectorAll("a, button, input, select, [tabindex]")].filter((e) => e.checkVisibility()).length`, &controls))
	for i := range controls {
		var is string
		b.do(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(reachable, &is))
		if is != "seen" {
			b.t.Errorf("control %d of %d: %s", i, controls, is)
		}
	}
	var at string
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`document.activeElement.tagName`, &at))
	if controls < 15 || at != "BODY" && at != "A" { // the first again, in some browsers after the window
		b.t.Errorf("after %d controls the keyboard is at %s", controls, at)
	}
}
