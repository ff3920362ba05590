/* Plans as text, explained and measured; sessions that learn, are governed and are admitted: on scripted devices and virtual
 * time, so that each run of the program sees the same figures. */
#include "check.h"

/* Stated times are 100 and 150 µs, actual ones 200 and 150: the first plan uses the first device, the best one the second. */
static const char *const SCRIPT = "null.script="
                                  "[[device]]\n"
                                  "name = \"a\"\n"
                                  "cost = { fixed_ns = 33333, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }\n"
                                  "actual = [{ time_permille = 2000 }]\n"
                                  "[[device]]\n"
                                  "name = \"b\"\n"
                                  "cost = { fixed_ns = 50000, ps_per_byte = 0.0, fixed_nj = 1e3, pj_per_byte = 0.0 }\n"
                                  "actual = [{ time_permille = 1000 }]\n";

static float first[2] = {1.0f, 2.0f};
static float second[2] = {3.0f, 4.0f};
static const uint64_t two[1] = {2};

static polychip_runtime_t scripted(const char *folder)
{
    char plugins[4096];
    snprintf(plugins, sizeof plugins, "%s/plugins", folder);
    polychip_builder_t builder;
    polychip_runtime_t runtime;
    OK(polychip_builder_create(&builder, &failure));
    OK(polychip_builder_set(builder, "only-given-folders", "yes", &failure));
    OK(polychip_builder_set(builder, "virtual-time", "yes", &failure));
    OK(polychip_builder_set(builder, "plugins", plugins, &failure));
    OK(polychip_builder_set(builder, "set", SCRIPT, &failure));
    OK(polychip_runtime_create(builder, &runtime, &failure));
    OK(polychip_builder_destroy(builder, &failure));
    return runtime;
}

static polychip_model_t model_of(polychip_runtime_t runtime, const char *folder)
{
    char path[4096];
    polychip_model_t model;
    snprintf(path, sizeof path, "%s/sum.onnx", folder);
    OK(polychip_model_load(runtime, path, &model, &failure));
    return model;
}

/* A policy of the scripted devices, with settings: a name and a value each, and NULL. */
static polychip_policy_t policy_of(const char *const *settings)
{
    polychip_policy_t policy;
    OK(polychip_policy_create(&policy, &failure));
    OK(polychip_policy_set(policy, "devices", "null", &failure));
    for (; settings != NULL && *settings != NULL; settings += 2) {
        OK(polychip_policy_set(policy, settings[0], settings[1], &failure));
    }
    return policy;
}

/* Whether a text contains some words; destroys the text. */
static int holds(polychip_text_t text, const char *words)
{
    const char *said;
    OK(polychip_text_get(text, &said, NULL, &failure));
    int found = strstr(said, words) != NULL;
    if (!found) {
        fprintf(stderr, "no %s in: %s\n", words, said);
    }
    OK(polychip_text_destroy(text, &failure));
    return found;
}

static int reports(polychip_session_t session, const char *words)
{
    polychip_text_t text;
    OK(polychip_session_report(session, POLYCHIP_FORMAT_JSON, &text, &failure));
    return holds(text, words);
}

static void drive(polychip_session_t session, int runs)
{
    polychip_tensor_t inputs[2] = {lend(first, 1, two), lend(second, 1, two)};
    for (int turn = 0; turn < runs; turn++) {
        polychip_run_t run;
        const void *data;
        OK(polychip_session_run(session, inputs, 2, NULL, 0, NULL, POLYCHIP_FOREVER, &run, &failure));
        OK(polychip_run_output(run, 1, NULL, &data, &failure));
        CHECK(((const float *)data)[0] == 4.0f && ((const float *)data)[1] == 6.0f);
        OK(polychip_run_destroy(run, &failure));
    }
    OK(polychip_tensor_destroy(inputs[0], &failure));
    OK(polychip_tensor_destroy(inputs[1], &failure));
}

static void session_learns_until_stopped(polychip_runtime_t runtime, polychip_model_t model)
{
    polychip_policy_t policy = policy_of(NULL);
    polychip_session_t session;
    OK(polychip_session_create(runtime, model, policy, &session, &failure));
    drive(session, 1);
    CHECK(reports(session, "\"settled\":false") && reports(session, "on null:0; other plans are not made yet"));
    drive(session, 300);
    CHECK(reports(session, "\"settled\":true") && reports(session, "on null:1; "));

    OK(polychip_session_set(session, "learn", "no", &failure));
    CHECK(reports(session, "\"mode\":\"no\""));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "2% to 20%", polychip_session_set(session, "learn", "1%", &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "in the session's policy", polychip_session_set(session, "threads", "1", &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "governed", polychip_session_set(session, "max-power", "5W", &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "value", polychip_session_set(session, "learn", NULL, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "policy", polychip_session_set(policy, "learn", "no", &failure));
    OK(polychip_session_destroy(session, &failure));
    OK(polychip_policy_destroy(policy, &failure));
}

static void plans_round_trip_as_text(polychip_runtime_t runtime, polychip_model_t model)
{
    polychip_policy_t policy = policy_of(NULL);
    polychip_plan_t plan, again, own;
    polychip_text_t text, lock, explained;
    polychip_session_t session;
    const char *file;
    OK(polychip_plan_create(runtime, model, policy, &plan, &failure));
    OK(polychip_plan_text(plan, POLYCHIP_PLAN_FILE, &text, &failure));
    OK(polychip_text_get(text, &file, NULL, &failure));
    OK(polychip_plan_read(runtime, model, policy, file, &again, &failure));
    OK(polychip_session_create_planned(runtime, again, policy, &session, &failure));
    drive(session, 100);
    /* a plan passed by the app is kept */
    CHECK(reports(session, "\"learning\":null"));
    OK(polychip_session_plan(session, &own, &failure));
    OK(polychip_plan_text(own, POLYCHIP_PLAN_LOCK, &lock, &failure));
    CHECK(holds(lock, "\"terms\""));
    OK(polychip_plan_explain(own, POLYCHIP_FORMAT_TEXT, &explained, &failure));
    CHECK(holds(explained, "not null:1:"));
    OK(polychip_plan_explain(plan, POLYCHIP_FORMAT_JSON, &explained, &failure));
    CHECK(holds(explained, "\"unlocks\""));

    FAILS(POLYCHIP_ERROR_BAD_PLAN, "not a plan", polychip_plan_read(runtime, model, policy, "{", &again, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "POLYCHIP_PLAN_", polychip_plan_text(plan, 7, &lock, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "POLYCHIP_FORMAT_", polychip_plan_explain(plan, 7, &lock, &failure));
    FAILS(POLYCHIP_ERROR_BAD_HANDLE, "session", polychip_plan_explain(session, 0, &lock, &failure));
    OK(polychip_text_destroy(text, &failure));
    OK(polychip_plan_destroy(plan, &failure));
    OK(polychip_plan_destroy(again, &failure));
    OK(polychip_plan_destroy(own, &failure));
    OK(polychip_plan_destroy(0, &failure));
    OK(polychip_session_destroy(session, &failure));
    OK(polychip_policy_destroy(policy, &failure));
}

static void governed_session_accepts_hints(polychip_runtime_t runtime, polychip_model_t model)
{
    static const char *const SETTINGS[] = {"governed", "yes", "max-power", "5W", NULL};
    polychip_policy_t policy = policy_of(SETTINGS);
    polychip_session_t session;
    polychip_text_t text;
    uint32_t takes = 7;
    OK(polychip_session_create(runtime, model, policy, &session, &failure));
    OK(polychip_session_set(session, "background", "yes", &failure));
    OK(polychip_session_set(session, "frame-period", "33ms", &failure));
    OK(polychip_session_set(session, "max-power", "no", &failure));
    OK(polychip_session_takes_frame(session, &takes, &failure));
    CHECK(takes == 1);
    drive(session, 3);
    OK(polychip_session_govern(session, &text, &failure));
    CHECK(holds(text, "\"device\":\"null:0\""));
    OK(polychip_session_decisions(session, &text, &failure));
    CHECK(holds(text, "\"foreground\""));
    CHECK(reports(session, "\"candidates\""));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "learn", polychip_session_set(session, "learn", "yes", &failure));
    OK(polychip_session_destroy(session, &failure));
    OK(polychip_policy_destroy(policy, &failure));

    policy = policy_of(NULL);
    OK(polychip_session_create(runtime, model, policy, &session, &failure));
    OK(polychip_session_takes_frame(session, &takes, &failure));
    CHECK(takes == 1);
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "governed", polychip_session_govern(session, &text, &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "governed", polychip_session_decisions(session, &text, &failure));
    OK(polychip_session_destroy(session, &failure));
    OK(polychip_policy_destroy(policy, &failure));
}

static void sessions_are_admitted_or_refused(polychip_runtime_t runtime, polychip_model_t model)
{
    static const char *const SOON[] = {"period", "33ms", "priority", "urgent", NULL};
    static const char *const NEVER[] = {"period", "0.01ms", NULL};
    polychip_policy_t soon = policy_of(SOON), never = policy_of(NEVER);
    struct polychip_wanted wanted[2] = {
        {.struct_size = sizeof wanted[0], .name = "camera", .model = model, .policy = soon},
        {.struct_size = sizeof wanted[1], .name = "search", .model = model, .margin_permille = POLYCHIP_MARGIN_NONE},
    };
    polychip_session_t sessions[2] = {0, 0};
    polychip_text_t text;
    wanted[1].policy = soon;
    OK(polychip_runtime_admit(runtime, wanted, 2, POLYCHIP_FORMAT_TEXT, sessions, &text, &failure));
    CHECK(holds(text, "camera"));
    CHECK(sessions[0] != 0 && sessions[1] != 0);
    drive(sessions[0], 3);
    OK(polychip_runtime_admitted(runtime, POLYCHIP_FORMAT_JSON, &text, &failure));
    CHECK(holds(text, "\"search\""));

    struct polychip_wanted more = {.struct_size = sizeof more, .name = "more", .model = model, .policy = never};
    polychip_session_t none = 0;
    text = 0;
    FAILS(POLYCHIP_ERROR_NOT_ADMITTED, "more",
          polychip_runtime_admit(runtime, &more, 1, POLYCHIP_FORMAT_JSON, &none, &text, &failure));
    CHECK(none == 0 && holds(text, "\"more\""));
    more.name = NULL;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "name",
          polychip_runtime_admit(runtime, &more, 1, POLYCHIP_FORMAT_TEXT, &none, NULL, &failure));
    more.struct_size = 4;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "struct_size of polychip_wanted",
          polychip_runtime_admit(runtime, &more, 1, POLYCHIP_FORMAT_TEXT, &none, NULL, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "count is 0",
          polychip_runtime_admit(runtime, &more, 0, POLYCHIP_FORMAT_TEXT, &none, NULL, &failure));
    OK(polychip_session_destroy(sessions[0], &failure));
    OK(polychip_session_destroy(sessions[1], &failure));
    OK(polychip_runtime_admitted(runtime, POLYCHIP_FORMAT_TEXT, &text, &failure));
    CHECK(holds(text, ""));
    OK(polychip_policy_destroy(soon, &failure));
    OK(polychip_policy_destroy(never, &failure));
}

static int told;

static uint32_t on_progress(void *user, uint64_t done, uint64_t total, const char *part, const char *device)
{
    CHECK(user == &told && done <= total && part[0] != '\0' && strncmp(device, "null:", 5) == 0);
    told++;
    return 0;
}

static uint32_t at_once(void *user, uint64_t done, uint64_t total, const char *part, const char *device)
{
    (void)done, (void)total, (void)part, (void)device;
    ++*(int *)user;
    return 1;
}

static void measurements_determine_the_next_plan(const char *folder)
{
    polychip_runtime_t runtime = scripted(folder);
    polychip_model_t model = model_of(runtime, folder);
    polychip_policy_t policy = policy_of(NULL);
    polychip_text_t text;
    struct polychip_measure_options options = {
        .struct_size = sizeof options, .on_progress = at_once, .user = &told};
    OK(polychip_runtime_measure(runtime, &model, 1, policy, &options, POLYCHIP_FORMAT_JSON, &text, &failure));
    CHECK(told == 1 && holds(text, "\"complete\":false"));
    told = 0;
    options.on_progress = on_progress;
    OK(polychip_runtime_measure(runtime, &model, 1, policy, &options, POLYCHIP_FORMAT_JSON, &text, &failure));
    CHECK(told > 0 && holds(text, "\"devices\":[\"null:1\"]"));
    options.what = 8;
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "POLYCHIP_MEASURE_",
          polychip_runtime_measure(runtime, &model, 1, policy, &options, POLYCHIP_FORMAT_TEXT, &text, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "count is 0",
          polychip_runtime_measure(runtime, NULL, 0, policy, NULL, POLYCHIP_FORMAT_TEXT, &text, &failure));
    OK(polychip_policy_destroy(policy, &failure));
    OK(polychip_model_destroy(model, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
}

static void bundles_are_listed(const char *folder)
{
    char path[4096];
    polychip_builder_t builder;
    polychip_runtime_t runtime;
    polychip_text_t text;
    snprintf(path, sizeof path, "%s/none.bundle", folder);
    OK(polychip_builder_create(&builder, &failure));
    OK(polychip_builder_set(builder, "only-given-folders", "yes", &failure));
    OK(polychip_builder_set(builder, "profile", path, &failure));
    OK(polychip_builder_set(builder, "installation", "b71c", &failure));
    OK(polychip_builder_set(builder, "trust", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                            &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "trust", polychip_builder_set(builder, "trust", "nobody", &failure));
    OK(polychip_runtime_create(builder, &runtime, &failure));
    OK(polychip_runtime_bundles(runtime, &text, &failure));
    CHECK(holds(text, "none.bundle: not used"));
    OK(polychip_builder_destroy(builder, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
}

static void sessions_are_parked_and_limited(polychip_runtime_t runtime, polychip_model_t model, const char *folder)
{
    polychip_policy_t policy = policy_of(NULL);
    polychip_session_t session;
    polychip_text_t text;
    uint64_t loaded, parked, freed;
    OK(polychip_session_create(runtime, model, policy, &session, &failure));
    drive(session, 1);
    OK(polychip_session_resident_bytes(session, &loaded, &failure));
    OK(polychip_session_park(session, &freed, &failure));
    OK(polychip_session_resident_bytes(session, &parked, &failure));
    CHECK(freed > 0 && parked == loaded - freed && reports(session, "\"parked\":true"));
    drive(session, 1);
    CHECK(reports(session, "\"parked\":false"));
    OK(polychip_session_park(session, NULL, &failure));
    OK(polychip_session_resume(session, &failure));
    OK(polychip_session_resident_bytes(session, &parked, &failure));
    CHECK(parked == loaded);

    OK(polychip_runtime_trim_memory(runtime, "moderate", NULL, &failure));
    CHECK(reports(session, "\"parked\":false"));
    OK(polychip_runtime_trim_memory(runtime, "critical", &freed, &failure));
    CHECK(freed > 0 && reports(session, "\"parked\":true"));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "moderate, critical", polychip_runtime_trim_memory(runtime, "15", NULL, &failure));
    FAILS(POLYCHIP_ERROR_BAD_ARGUMENT, "out_bytes", polychip_session_resident_bytes(session, NULL, &failure));
    OK(polychip_runtime_memory(runtime, POLYCHIP_FORMAT_JSON, &text, &failure));
    CHECK(holds(text, "\"parts_bytes\":0,"));
    OK(polychip_session_destroy(session, &failure));

    char plugins[4096];
    polychip_builder_t builder;
    polychip_runtime_t limited;
    snprintf(plugins, sizeof plugins, "%s/plugins", folder);
    OK(polychip_builder_create(&builder, &failure));
    OK(polychip_builder_set(builder, "only-given-folders", "yes", &failure));
    OK(polychip_builder_set(builder, "plugins", plugins, &failure));
    OK(polychip_builder_set(builder, "set", SCRIPT, &failure));
    OK(polychip_builder_set(builder, "memory-limit", "1kB", &failure));
    FAILS(POLYCHIP_ERROR_BAD_INPUT, "1.5GiB", polychip_builder_set(builder, "memory-limit", "little", &failure));
    OK(polychip_runtime_create(builder, &limited, &failure));
    OK(polychip_runtime_memory(limited, POLYCHIP_FORMAT_TEXT, &text, &failure));
    CHECK(holds(text, "limit 0.0 MiB (memory-limit)"));
    FAILS(POLYCHIP_ERROR_OUT_OF_MEMORY, "raise the limit",
          polychip_session_create(limited, model, policy, &session, &failure));
    OK(polychip_builder_destroy(builder, &failure));
    OK(polychip_runtime_destroy(limited, &failure));
    OK(polychip_policy_destroy(policy, &failure));
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    polychip_runtime_t runtime = scripted(arguments[1]);
    polychip_model_t model = model_of(runtime, arguments[1]);
    plans_round_trip_as_text(runtime, model);
    session_learns_until_stopped(runtime, model);
    governed_session_accepts_hints(runtime, model);
    sessions_are_admitted_or_refused(runtime, model);
    sessions_are_parked_and_limited(runtime, model, arguments[1]);
    OK(polychip_model_destroy(model, &failure));
    OK(polychip_runtime_destroy(runtime, &failure));
    measurements_determine_the_next_plan(arguments[1]);
    bundles_are_listed(arguments[1]);
    return 0;
}
