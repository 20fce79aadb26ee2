// Package pagetest looks at the page of the admin listener in a browser: Chromium, which only
// this module's test needs. It is a module of its own, since nothing else has use for what
// drives a browser.
package pagetest
