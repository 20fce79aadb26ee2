// Package k8stest renders deploy/helm and deploy/kustomize with the code of helm and kustomize,
// checks every object, and runs the program as the objects say. It is a module of its own, so
// that nobody else needs what it does. No cluster is involved: what an API server would refuse
// beyond unknown fields and wrong types is not seen.
package k8stest
