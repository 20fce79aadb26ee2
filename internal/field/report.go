package field

import "errors"

// Report collects what is wrong with one configuration.
type Report struct {
	Package string // that checks it
	errs    []error
}

// When adds an error if something is wrong.
func (r *Report) When(wrong bool, name, problem, fix string) {
	if wrong {
		r.errs = append(r.errs, &Error{Package: r.Package, Field: name, Problem: problem, Fix: fix})
	}
}

// Err joins the errors.
func (r *Report) Err() error { return errors.Join(r.errs...) }
