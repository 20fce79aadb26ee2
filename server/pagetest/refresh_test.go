package pagetest

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// byHand has the test do what time does, and counts how often the page is asked for.
const byHand = `window.setInterval = (f) => { window.tick = f; };
window.looks = 0;
const ask = window.fetch;
window.fetch = (...a) => { window.looks++; return ask(...a); };`

// The page refreshes on request, but not while somebody fills in a form, which would be emptied and be about
// another rule.
func TestRefresh(t *testing.T) {
	n := serve(t, "admin: 127.0.0.1:0\n")
	b := open(t, "http://"+n.admin+"/", chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(byHand).Do(ctx)
		return err
	}))
	var looks int
	b.do(chromedp.Evaluate(`tick(), looks`, &looks))
	if looks != 0 {
		t.Error("it looks though nobody has told it to")
	}
	n.ask(t, "198.51.100.7", 3)
	b.do(chromedp.Click("#often", chromedp.ByQuery), chromedp.Evaluate(`tick(), looks`, &looks))
	b.shows(table("By net"), "198.51.100.7/32")

	var rule, rate string
	b.do(chromedp.SetValue("#which", "per-tenant", chromedp.ByQuery), chromedp.SendKeys("#rate", "50/s", chromedp.ByQuery),
		chromedp.Evaluate(`tick(), document.activeElement.blur(), tick(), looks`, &looks),
		chromedp.Value("#which", &rule, chromedp.ByQuery), chromedp.Value("#rate", &rate, chromedp.ByQuery))
	if looks != 1 || rule != "per-tenant" || rate != "50/s" {
		t.Errorf("%d looks, the form has %s and %s, want 1, per-tenant and 50/s", looks, rule, rate)
	}
	b.do(chromedp.Click("#rule button", chromedp.ByQuery))
	b.says("Change per-tenant for 10m.")
	b.shows(table("Rules"), "50/s")
	b.do(chromedp.Poll(`tick(), looks > 3`, nil)) // the form is as it was: what follows is shown again
	b.clean()
}
