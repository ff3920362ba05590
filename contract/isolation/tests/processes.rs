//! Plugins in processes of their own, through the host: answers, deaths, hangs, lies, and nothing
//! left behind.
//!
//! The deadly plugin is `examples/deadly.rs`; the lying program is this test itself, started in place of
//! `polychip-plugin-host`.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
#[path = "processes/lies.rs"]
mod lies;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    if let Some(lie) = std::env::args()
        .nth(1)
        .and_then(|word| word.strip_prefix("lie:").map(str::to_owned))
    {
        lies::tell(&lie);
        return std::process::ExitCode::SUCCESS;
    }
    linux::run()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::process::ExitCode;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex, PoisonError, mpsc};
    use std::time::Duration;

    use libtest_mimic::{Arguments, Failed, Trial};
    use polychip_host::{Device, Error, ErrorKind, Fence, Host, Signal, Submission};
    use polychip_isolation::{Isolated, Limits, PROGRAM};
    use polychip_parts::{
        buffers, cached_bytes_load_and_changed_ones_are_refused, floats, load, numbers, read, relu_of_sum,
        runs_more_than_once, sum, write,
    };
    use polychip_test_requirements::libraries;

    const PATIENCE: Duration = Duration::from_secs(60);
    const SCRIPT: &str = "[[device]]\nname = \"npu\"\nlaunch_ns = 1000\n";

    /// One at a time: descriptors and children of this process are counted.
    static TURN: Mutex<()> = Mutex::new(());

    pub(super) fn run() -> ExitCode {
        type Case = (&'static str, fn() -> Result<(), Failed>);
        let cases: [Case; 14] = [
            ("isolated_plugin_gives_the_same_answers", same_answers),
            ("plugin_without_import_is_copied_and_counted", copied_and_counted),
            ("outputs_are_read_after_the_process_died", outputs_outlive),
            ("death_in_the_copy_of_an_output_loses_its_run", death_in_copy),
            ("callbacks_and_waits_see_the_end_of_runs", callbacks),
            ("death_in_any_call_loses_the_device_and_a_reset_recovers", deaths),
            ("run_in_flight_ends_as_lost_with_its_callback", death_in_flight),
            ("hang_in_a_call_ends_the_process", hangs),
            ("memory_cannot_be_truncated_by_the_child", shrunk),
            ("third_death_quarantines_the_plugin", quarantine),
            ("deaths_count_without_a_reset_and_closing_does_not", counted),
            ("nothing_is_left_of_an_instance", nothing_left),
            ("process_has_nothing_of_the_app", nothing_inherited),
            ("lies_are_refused", lies),
        ];
        let trials = cases.map(|(name, case)| {
            Trial::test(name, move || {
                let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
                case()
            })
        });
        libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
    }

    /// The plugin, with limits that no other test uses: deaths are counted per library and limits.
    fn isolated(library: &str, call: Duration) -> Result<Isolated, Failed> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = Duration::from_nanos(u64::from(NUMBER.fetch_add(1, Ordering::Relaxed)));
        let mut isolated = Isolated::new(
            libraries::program(PROGRAM, PROGRAM)?,
            match library {
                "deadly" => libraries::example("polychip-isolation", "deadly")?,
                _ => libraries::plugin(library)?,
            },
        );
        isolated.limits = Limits {
            long_call: call.max(Duration::from_secs(30)) + number,
            call: call + number,
            ..Limits::default()
        };
        Ok(isolated)
    }

    /// A host with the plugin, whose process dies as `die` says.
    fn host(isolated: &Isolated, die: &str, more: &str) -> Result<Host, Failed> {
        let host = Host::builder()
            .linked(isolated.query()?)
            .configure("null", "script", format!("{SCRIPT}{more}"))
            .configure("null", "die", die)
            .build();
        if host.devices().is_empty() {
            return Err(format!("no device: {:?}", host.refusals()).into());
        }
        Ok(host)
    }

    fn deadly(die: &str) -> Result<(Host, Device), Failed> {
        let host = host(&isolated("deadly", PATIENCE)?, die, "")?;
        let device = host.devices()[0].clone();
        Ok((host, device))
    }

    fn same_answers() -> Result<(), Failed> {
        let host = host(&isolated("null", PATIENCE)?, "", "")?;
        let device = &host.devices()[0];
        assert_eq!(device.info().name, "npu");
        assert!(device.info().imports_memory() && !device.info().imports_host_memory);
        runs_more_than_once(device);
        cached_bytes_load_and_changed_ones_are_refused(device);
        Ok(())
    }

    fn copied_and_counted() -> Result<(), Failed> {
        let host = host(&isolated("null", PATIENCE)?, "", "imports = []\n")?;
        let device = &host.devices()[0];
        assert!(!device.info().imports_memory());
        runs_more_than_once(device);
        let executable = load(device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 0);
        let buffers = buffers(device, &executable, &mut submission);
        write(&buffers[0], &floats(&[1.0; 4]));
        let fence = executable.execute(&mut submission, &[])?;
        fence.wait(PATIENCE)?;
        // what the host wrote, and the output
        assert_eq!(fence.timing()?.copied_bytes, Some(32));
        let fence = executable.execute(&mut submission, &[])?;
        fence.wait(PATIENCE)?;
        assert_eq!(fence.timing()?.copied_bytes, Some(16), "the output alone");
        assert_eq!(numbers(&read(&buffers[1], 16)), RIGHT);
        Ok(())
    }

    /// Kills the processes of plugins, and waits until they are gone.
    fn kill() -> Result<(), Failed> {
        for (pid, _) in children()? {
            let pid = rustix::process::Pid::from_raw(pid.parse()?).ok_or("a process")?;
            rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        }
        while !children()?.is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn outputs_outlive() -> Result<(), Failed> {
        let host = host(&isolated("null", PATIENCE)?, "", "imports = []\n")?;
        let device = &host.devices()[0];
        let executable = load(device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 0);
        let buffers = buffers(device, &executable, &mut submission);
        write(&buffers[0], &floats(&[1.0; 4]));
        executable.execute(&mut submission, &[])?.wait(PATIENCE)?;
        kill()?;
        assert_eq!(numbers(&read(&buffers[1], 16)), RIGHT, "after the death");
        assert!(executable.execute(&mut submission, &[]).is_err());
        device.reset()?;
        assert_eq!(numbers(&read(&buffers[1], 16)), RIGHT, "in a new process");
        // what the host wrote goes to the new process too
        let executable = load(device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 0);
        for (port, buffer) in (0..).zip(&buffers) {
            submission.bind(port, buffer, 0)?;
        }
        write(&buffers[1], &[0; 16]);
        executable.execute(&mut submission, &[])?.wait(PATIENCE)?;
        assert_eq!(numbers(&read(&buffers[1], 16)), RIGHT, "computed there");
        Ok(())
    }

    fn death_in_copy() -> Result<(), Failed> {
        // each run opens the input, which the host wrote, and the output
        let host = host(
            &isolated("deadly", PATIENCE)?,
            "buffer_begin_access:segv:4",
            "imports = []\n",
        )?;
        let device = &host.devices()[0];
        let executable = load(device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 0);
        let buffers = buffers(device, &executable, &mut submission);
        for run in 0..2 {
            write(&buffers[0], &floats(&[1.0; 4]));
            let ended = executable.execute(&mut submission, &[])?.wait(PATIENCE);
            assert_eq!(ended.is_ok(), run == 0, "{ended:?}");
            if let Err(error) = ended {
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
            }
            assert_eq!(numbers(&read(&buffers[1], 16)), RIGHT, "of the first run");
        }
        Ok(())
    }

    fn callbacks() -> Result<(), Failed> {
        let host = host(&isolated("null", PATIENCE)?, "", "")?;
        let device = &host.devices()[0];
        let executable = load(device, &relu_of_sum());
        let mut submission = Submission::new(&executable, 4);
        let buffers = buffers(device, &executable, &mut submission);
        write(&buffers[0], &floats(&[1.0; 4]));
        let (told, ends) = mpsc::channel();
        let signal = Signal::new(move |failed| {
            let _ = told.send(failed);
        });
        let mut last: Option<Fence> = None;
        for _ in 0..100 {
            let waits: Vec<&Fence> = last.iter().collect();
            let fence = executable.execute(&mut submission, &waits)?;
            assert!(fence.on_signal(&signal)?);
            fence.wait(PATIENCE)?;
            assert_eq!(ends.recv_timeout(PATIENCE)?, None);
            // after the end the callback comes at once
            assert!(fence.on_signal(&signal)?);
            assert_eq!(ends.recv_timeout(PATIENCE)?, None);
            last = Some(fence);
        }
        assert_eq!(numbers(&read(&buffers[1], 16)), [2.0, 0.0, 1.5, 0.0]);
        Ok(())
    }

    /// One pass through the calls that may be deadly.
    fn pass(device: &Device) -> Result<Vec<f32>, Error> {
        let graph = relu_of_sum();
        let flat = polychip_host::FlatGraph::new(&graph, &[])?;
        device.query_support(&flat)?;
        let blob = device.compile(&flat, &polychip_host::CompileOptions::default())?;
        let executable = device.load(blob, &flat, 1)?;
        let mut submission = Submission::new(&executable, 0);
        let mut made = Vec::new();
        for (number, port) in (0..).zip(executable.ports()) {
            let memory = polychip_host::Memory::for_devices(port.bytes, [device.info()])?;
            let buffer = Arc::new(device.import_buffer(&memory)?);
            submission.bind(number, &buffer, 0)?;
            made.push(buffer);
        }
        made[0]
            .access(polychip_host::Access::Write, 0, 16)?
            .copy_from_slice(&floats(&[1.0; 4]));
        let fence = executable.execute(&mut submission, &[])?;
        fence.wait(PATIENCE)?;
        let answer = made[1].access(polychip_host::Access::Read, 0, 16)?.to_vec();
        Ok(numbers(&answer))
    }

    const RIGHT: [f32; 4] = [2.0, 0.0, 1.5, 0.0];

    fn deaths() -> Result<(), Failed> {
        let ways = [
            ("segv", "signal 11 (SIGSEGV)"),
            ("abort", "signal 6 (SIGABRT)"),
            ("exit", "exited with code 0"),
            ("thread", "signal 11 (SIGSEGV)"),
            // its own runtime may notice first and abort
            ("close", "the plugin's process"),
        ];
        let calls = [
            "query_support",
            "compile",
            "load",
            "buffer_begin_access",
            "execute",
        ];
        for (index, call) in calls.into_iter().enumerate() {
            // every call with two ways, so that each way comes up
            for (how, story) in [ways[index], ways[(index + 1) % ways.len()]] {
                // two accesses in a pass
                let at = if call == "buffer_begin_access" { 3 } else { 2 };
                let (_host, device) = deadly(&format!("{call}:{how}:{at}"))?;
                assert_eq!(pass(&device)?, RIGHT);
                let error = pass(&device).expect_err("the process died");
                let words = error.to_string();
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{call} {how}: {words}");
                assert!(
                    words.contains(story) && words.contains(call),
                    "{call} {how}: {words}"
                );
                assert!(words.contains("about to die"), "no last lines: {words}");
                assert!(device.is_quarantined());
                device.reset()?;
                assert_eq!(pass(&device)?, RIGHT, "{call} {how}");
            }
        }
        Ok(())
    }

    fn death_in_flight() -> Result<(), Failed> {
        // the first run hangs in the device, the second kills the process
        let fault = "fault = [{ kind = \"hang\", at = 0, times = 1 }]\n";
        let host = host(&isolated("deadly", PATIENCE)?, "execute:segv:2", fault)?;
        let device = host.devices()[0].clone();
        let executable = load(&device, &relu_of_sum());
        let mut first = Submission::new(&executable, 0);
        let _first = buffers(&device, &executable, &mut first);
        let mut second = Submission::new(&executable, 0);
        let _second = buffers(&device, &executable, &mut second);
        let hung = executable.execute(&mut first, &[])?;
        let (told, ends) = mpsc::channel();
        let signal = Signal::new(move |failed| {
            let _ = told.send(failed);
        });
        assert!(hung.on_signal(&signal)?);
        assert!(hung.poll(Duration::ZERO).is_none());
        let error = executable
            .execute(&mut second, &[])
            .map(drop)
            .expect_err("the process died");
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
        let error = hung.wait(PATIENCE).expect_err("the process died");
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
        assert!(error.to_string().contains("a run of part \"sum\""), "{error}");
        assert_eq!(ends.recv_timeout(PATIENCE)?, Some(ErrorKind::DeviceLost));
        Ok(())
    }

    fn hangs() -> Result<(), Failed> {
        let isolated = isolated("deadly", Duration::from_millis(300))?;
        let host = host(&isolated, "execute:loop:2", "")?;
        let device = &host.devices()[0];
        assert_eq!(pass(device)?, RIGHT);
        let error = pass(device).expect_err("the call hangs");
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
        assert!(
            error
                .to_string()
                .contains("execute of part \"sum\" did not return within"),
            "{error}"
        );
        device.reset()?;
        assert_eq!(pass(device)?, RIGHT);
        Ok(())
    }

    fn shrunk() -> Result<(), Failed> {
        for call in ["execute", "buffer_begin_access", "load"] {
            let (_host, device) = deadly(&format!("{call}:shrink:1"))?;
            for _ in 0..3 {
                assert_eq!(pass(&device)?, RIGHT, "{call}");
            }
        }
        Ok(())
    }

    fn quarantine() -> Result<(), Failed> {
        let (_host, device) = deadly("execute:abort:1")?;
        for death in 1..=3 {
            assert!(pass(&device).is_err());
            let reset = device.reset();
            assert_eq!(reset.is_ok(), death < 3, "death {death}: {reset:?}");
            if let Err(error) = reset {
                assert!(error.to_string().contains("quarantined"), "{error}");
            }
        }
        Ok(())
    }

    fn counted() -> Result<(), Failed> {
        let isolated = isolated("deadly", PATIENCE)?;
        for _ in 0..4 {
            drop(host(&isolated, "", "")?);
        }
        for _ in 0..3 {
            let host = host(&isolated, "execute:abort:1", "")?;
            assert!(pass(&host.devices()[0]).is_err());
        }
        let refused = host(&isolated, "", "").map(drop).expect_err("three deaths");
        let words = refused.message().unwrap_or_default();
        assert!(words.contains("quarantined"), "{words}");
        Ok(())
    }

    /// Descriptors and shared mappings of this process, and its children.
    fn held() -> Result<(usize, usize, usize), Failed> {
        let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let shared = maps.lines().filter(|line| line.contains("memfd:")).count();
        Ok((descriptors, shared, children()?.len()))
    }

    /// Children of this process, with their process groups.
    fn children() -> Result<Vec<(String, String)>, Failed> {
        let this = std::process::id().to_string();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            // no process, or one that has ended meanwhile
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
                continue;
            };
            // behind the name, which may hold anything: state, parent, group
            let Some((_, fields)) = stat.rsplit_once(')') else {
                continue;
            };
            let fields: Vec<&str> = fields.split_whitespace().collect();
            if let [_, parent, group, ..] = fields[..]
                && parent == this
            {
                found.push((pid, group.to_owned()));
            }
        }
        Ok(found)
    }

    fn nothing_inherited() -> Result<(), Failed> {
        let leaked = rustix::fs::memfd_create("leaked", rustix::fs::MemfdFlags::empty())?;
        let (_host, _device) = deadly("")?;
        let children = children()?;
        assert_eq!(children.len(), 1, "{children:?}");
        for (pid, group) in children {
            // Ctrl-C in a terminal is for the app
            assert_eq!(group, pid);
            let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd"))?;
            let targets: Vec<_> = descriptors
                .flatten()
                .filter_map(|entry| std::fs::read_link(entry.path()).ok())
                .collect();
            assert!(targets.len() > 3, "{targets:?}");
            let is_leaked = |target: &std::path::PathBuf| target.to_string_lossy().contains("leaked");
            assert!(!targets.iter().any(is_leaked), "{targets:?}");
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
            let line = limits
                .lines()
                .find(|line| line.starts_with("Max open files"))
                .ok_or("no limit on open files")?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |word: &str| word.parse().unwrap_or(u64::MAX);
            assert!(number(words[3]) >= number(words[4]).min(1 << 19), "{line}");
        }
        drop(leaked);
        Ok(())
    }

    fn nothing_left() -> Result<(), Failed> {
        let before = held()?;
        for die in ["", "execute:segv:1", "compile:abort:1"] {
            let (host, device) = deadly(die)?;
            assert_eq!(pass(&device).is_ok(), die.is_empty());
            let alive = held()?;
            if die.is_empty() {
                // what is counted is seen at all
                assert!(alive.0 > before.0 && alive.1 > before.1, "{alive:?}, {before:?}");
                assert_eq!(alive.2, before.2 + 1);
            } else {
                assert!(alive.2 <= before.2 + 1);
            }
            drop((device, host));
            assert_eq!(held()?, before, "descriptors, mappings, children after {die:?}");
        }
        let (host, device) = deadly("")?;
        let executable = load(&device, &relu_of_sum());
        for _ in 0..50 {
            assert_eq!(sum(&device, &executable, [1.0; 4]), RIGHT);
        }
        let warm = held()?;
        for _ in 0..200 {
            assert_eq!(sum(&device, &executable, [1.0; 4]), RIGHT);
        }
        assert_eq!(held()?, warm, "descriptors, mappings, children of runs");
        drop((executable, device, host));
        assert_eq!(held()?, before);
        Ok(())
    }

    fn lies() -> Result<(), Failed> {
        let before = held()?;
        for (lie, words) in super::lies::LIES {
            let this = std::env::current_exe()?;
            let mut isolated = Isolated::new(this, format!("lie:{lie}"));
            isolated.limits.call = Duration::from_millis(500);
            isolated.limits.long_call = Duration::from_millis(500);
            let found = match isolated.query() {
                Err(reason) => reason,
                Ok(query) => {
                    let host = Host::builder().linked(query).build();
                    assert!(host.devices().is_empty(), "{lie}");
                    host.refusals()
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join("; ")
                }
            };
            assert!(found.contains(words), "{lie}: {found:?} lacks {words:?}");
            assert_eq!(held()?, before, "{lie}");
        }
        Ok(())
    }
}
