// SPDX-License-Identifier: (GPL-2.0 OR MIT OR Apache-2.0)
/* Sensors of an emulated board: a thermal zone (a thermal resistance and a time constant), a devfreq device with
 * operating points that cools the zone, a battery, and a clock per CPU. All are of the kernel's own classes, with its own
 * governors; their constants are no real chip's, and a clock changes nothing of the speed. */
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/thermal.h>
#include <linux/devfreq.h>
#include <linux/devfreq_cooling.h>
#include <linux/pm_opp.h>
#include <linux/power_supply.h>
#include <linux/cpufreq.h>
#include <linux/jiffies.h>

static int load;            module_param(load, int, 0644);            /* 0..100 */
static int ambient = 30000; module_param(ambient, int, 0644);         /* mC */
static int pmax_mw = 8000;  module_param(pmax_mw, int, 0644);
static int r_mk_per_w = 8000; module_param(r_mk_per_w, int, 0644);    /* mK/W */
static int tau_ms = 4000;   module_param(tau_ms, int, 0644);
static int inject_err;      module_param(inject_err, int, 0644);      /* -errno for reads */
static int capacity = 87;   module_param(capacity, int, 0644);

static struct platform_device *pdev;
static struct devfreq *df;
static struct thermal_cooling_device *cdev;
static struct thermal_zone_device *tz;
static struct power_supply *psy;
static unsigned long cur = 1000000000;
static const unsigned long opps[] = { 300000000, 500000000, 800000000, 1000000000 };
static int temp = 30000;
static unsigned long last;

static int power_mw(void)
{
	int f = cur / 1000000; /* ~f^2 */
	return pmax_mw * load / 100 * f / 1000 * f / 1000 + 200;
}
static int fs_target(struct device *d, unsigned long *freq, u32 flags)
{
	struct dev_pm_opp *o = devfreq_recommended_opp(d, freq, flags);
	if (IS_ERR(o)) return PTR_ERR(o);
	dev_pm_opp_put(o);
	cur = *freq;
	return 0;
}
static int fs_status(struct device *d, struct devfreq_dev_status *s)
{ s->busy_time = load; s->total_time = 100; s->current_frequency = cur; return 0; }
static int fs_cur(struct device *d, unsigned long *f) { *f = cur; return 0; }
static struct devfreq_dev_profile prof = { .initial_freq = 1000000000, .polling_ms = 100,
	.target = fs_target, .get_dev_status = fs_status, .get_cur_freq = fs_cur };

static int tz_temp(struct thermal_zone_device *t, int *out)
{
	int dt = jiffies_to_msecs(jiffies - last), goal;
	if (inject_err) return inject_err;
	last = jiffies;
	if (dt > tau_ms) dt = tau_ms;
	goal = ambient + power_mw() * r_mk_per_w / 1000;
	temp += (goal - temp) * dt / tau_ms;
	*out = temp;
	return 0;
}
static int tz_bind(struct thermal_zone_device *t, struct thermal_cooling_device *c)
{
	if (c != cdev) return 0;
	return thermal_zone_bind_cooling_device(t, 0, c, THERMAL_NO_LIMIT, THERMAL_NO_LIMIT, THERMAL_WEIGHT_DEFAULT);
}
static int tz_unbind(struct thermal_zone_device *t, struct thermal_cooling_device *c)
{ return c == cdev ? thermal_zone_unbind_cooling_device(t, 0, c) : 0; }
static int trip_t(struct thermal_zone_device *t, int i, enum thermal_trip_type *y)
{ *y = i == 0 ? THERMAL_TRIP_PASSIVE : THERMAL_TRIP_CRITICAL; return 0; }
static int trip_c(struct thermal_zone_device *t, int i, int *c) { *c = i == 0 ? 60000 : 125000; return 0; }
static int trip_h(struct thermal_zone_device *t, int i, int *c) { *c = 1000; return 0; }
static struct thermal_zone_device_ops tzops = { .bind = tz_bind, .unbind = tz_unbind, .get_temp = tz_temp,
	.get_trip_type = trip_t, .get_trip_temp = trip_c, .get_trip_hyst = trip_h };

static enum power_supply_property pp[] = { POWER_SUPPLY_PROP_STATUS, POWER_SUPPLY_PROP_CAPACITY,
	POWER_SUPPLY_PROP_VOLTAGE_NOW, POWER_SUPPLY_PROP_CURRENT_NOW, POWER_SUPPLY_PROP_TEMP };
static int ps_get(struct power_supply *p, enum power_supply_property x, union power_supply_propval *v)
{
	switch (x) {
	case POWER_SUPPLY_PROP_STATUS: v->intval = POWER_SUPPLY_STATUS_DISCHARGING; break;
	case POWER_SUPPLY_PROP_CAPACITY: v->intval = capacity; break;
	case POWER_SUPPLY_PROP_VOLTAGE_NOW: v->intval = 3850000; break;
	case POWER_SUPPLY_PROP_CURRENT_NOW: v->intval = -(power_mw() * 1000 / 385 * 100); break;
	case POWER_SUPPLY_PROP_TEMP: v->intval = temp / 100; break;
	default: return -EINVAL;
	}
	return 0;
}
static const struct power_supply_desc pd = { .name = "battery", .type = POWER_SUPPLY_TYPE_BATTERY,
	.properties = pp, .num_properties = ARRAY_SIZE(pp), .get_property = ps_get };

static struct cpufreq_frequency_table ct[] = { {.frequency = 600000}, {.frequency = 1200000}, {.frequency = 1800000}, {.frequency = 2400000}, {.frequency = CPUFREQ_TABLE_END} };
static unsigned int ccur[NR_CPUS];
static int c_init(struct cpufreq_policy *p)
{ p->freq_table = ct; p->cpuinfo.transition_latency = 100000; ccur[p->cpu] = 2400000; return 0; }
static int c_set(struct cpufreq_policy *p, unsigned int i) { ccur[p->cpu] = ct[i].frequency; return 0; }
static unsigned int c_get(unsigned int cpu) { return ccur[cpu]; }
static int c_exit(struct cpufreq_policy *p) { return 0; }
static struct cpufreq_driver cd = { .name = "farmsim", .init = c_init, .exit = c_exit, .verify = cpufreq_generic_frequency_table_verify,
	.target_index = c_set, .get = c_get, .attr = cpufreq_generic_attr };

static int __init fs_init(void)
{
	int i;
	last = jiffies;
	pdev = platform_device_register_simple("farmsim-npu", -1, NULL, 0);
	if (IS_ERR(pdev)) return PTR_ERR(pdev);
	for (i = 0; i < ARRAY_SIZE(opps); i++) dev_pm_opp_add(&pdev->dev, opps[i], 600000 + 100000 * i);
	df = devfreq_add_device(&pdev->dev, &prof, DEVFREQ_GOV_SIMPLE_ONDEMAND, NULL);
	if (IS_ERR(df)) { pr_err("devfreq %ld\n", PTR_ERR(df)); df = NULL; }
	else { cdev = devfreq_cooling_register(df); if (IS_ERR(cdev)) { pr_err("cooling %ld\n", PTR_ERR(cdev)); cdev = NULL; } }
	tz = thermal_zone_device_register("npu-thermal", 2, 0, NULL, &tzops, NULL, 200, 200);
	if (!IS_ERR(tz)) thermal_zone_device_enable(tz); else { pr_err("tz %ld\n", PTR_ERR(tz)); tz = NULL; }
	psy = power_supply_register(NULL, &pd, NULL);
	if (IS_ERR(psy)) psy = NULL;
	i = cpufreq_register_driver(&cd);
	if (i) pr_err("cpufreq %d\n", i);
	return 0;
}
static void __exit fs_exit(void)
{
	cpufreq_unregister_driver(&cd);
	if (psy) power_supply_unregister(psy);
	if (tz) thermal_zone_device_unregister(tz);
	if (cdev) devfreq_cooling_unregister(cdev);
	if (df) devfreq_remove_device(df);
	platform_device_unregister(pdev);
}
module_init(fs_init); module_exit(fs_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Sensors of an emulated board");
MODULE_SOFTDEP("pre: governor_simpleondemand");
