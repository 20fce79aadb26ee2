package config

// check checks the settings against each other, and has each package check the
// Config that is meant for it. It runs even if some settings could not be read: what
// they fill is zero then, and [decoder.report] leaves out errors about failed fields.
func (d *decoder) check() {
	d.checkStores()
	d.checkCluster()
	d.checkProxies()
	d.checkListening()
	d.checkAdmin()
	d.checkClusterPort()
	d.checkListeners()
	d.checkKernel()
	d.checkUpstream()
	d.checkAnswered()
	d.checkPrefixes() // before what depends on how many rules there are
	d.checkTalkers()  // before the rules: the plan has to fit the top talkers too
	d.translateLegacy()
	d.checkCosts()
	d.checkOverrides()
	d.checkRules()
	d.cfg.Policy = d.cfg.Policy.Expanded()
}
