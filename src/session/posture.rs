//! Compares what the supervisor sees of its sandbox with what was asked of the engine.

use crate::protocol::Posture;

/// What was asked of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) memory_bytes: u64,
    pub(super) pids_max: u64,
    pub(super) cpu_millis: Option<u64>,
}

/// Fields in which the sandbox is open where it must be closed: it is refused.
pub(super) fn weaknesses(posture: &Posture, asked: &Asked) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |holds: bool, field: &str, seen: String, wanted: String| {
        if !holds {
            found.push(format!("{field} is {seen}, asked was {wanted}"));
        }
    };
    expect(posture.uid == asked.uid, "uid", posture.uid.to_string(), asked.uid.to_string());
    expect(posture.gid == asked.gid, "gid", posture.gid.to_string(), asked.gid.to_string());
    for (field, seen) in [("cap_eff", &posture.cap_eff), ("cap_bnd", &posture.cap_bnd)] {
        expect(is_zero(seen), field, seen.clone(), "0".into());
    }
    expect(posture.no_new_privs == 1, "no_new_privs", posture.no_new_privs.to_string(), "1".into());
    expect(posture.seccomp == 2, "seccomp", posture.seccomp.to_string(), "2 (a filter)".into());
    expect(posture.root_read_only, "root_read_only", "false".into(), "true".into());
    let only_loopback = posture.interfaces.iter().all(|name| name == "lo");
    expect(only_loopback, "interfaces", posture.interfaces.join(" "), "lo".into());
    found
}

/// Limits that the engine accepted and does not enforce: they are reported.
pub(super) fn unenforced(posture: &Posture, asked: &Asked) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |name: &str, seen: Option<u64>, wanted: u64, slack: u64, unit: &str| {
        if seen.is_none_or(|seen| seen > wanted.saturating_add(slack)) {
            found.push(format!("the {name} limit of {wanted} {unit} is not enforced by this engine"));
        }
    };
    let mib = |bytes: u64| bytes >> 20;
    expect("memory", posture.memory_max_bytes.map(mib), mib(asked.memory_bytes), 1, "MiB");
    expect("pids", posture.pids_max, asked.pids_max, 0, "processes");
    if let Some(millis) = asked.cpu_millis {
        expect("cpu", posture.cpu_max_millis, millis, 1, "thousandths of a CPU");
    }
    found
}

fn is_zero(hex: &str) -> bool {
    !hex.is_empty() && hex.chars().all(|digit| digit == '0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked { uid: 65534, gid: 65534, memory_bytes: 512 << 20, pids_max: 128, cpu_millis: Some(500) }
    }

    fn good() -> Posture {
        Posture {
            uid: 65534,
            gid: 65534,
            cap_eff: "0000000000000000".into(),
            cap_bnd: "0000000000000000".into(),
            no_new_privs: 1,
            seccomp: 2,
            root_read_only: true,
            interfaces: vec!["lo".into()],
            user_namespace: false,
            memory_max_bytes: Some(512 << 20),
            pids_max: Some(128),
            cpu_max_millis: Some(500),
        }
    }

    #[test]
    fn a_sandbox_as_asked_has_nothing_to_report() {
        assert_eq!(weaknesses(&good(), &asked()), Vec::<String>::new());
        assert_eq!(unenforced(&good(), &asked()), Vec::<String>::new());
    }

    #[test]
    fn every_weaker_field_is_named() {
        let cases: [(Posture, &str); 8] = [
            (Posture { uid: 0, ..good() }, "uid is 0, asked was 65534"),
            (Posture { gid: 0, ..good() }, "gid is 0, asked was 65534"),
            (Posture { cap_eff: "1".into(), ..good() }, "cap_eff is 1, asked was 0"),
            (Posture { cap_bnd: String::new(), ..good() }, "cap_bnd is , asked was 0"),
            (Posture { no_new_privs: 0, ..good() }, "no_new_privs is 0, asked was 1"),
            (Posture { seccomp: 0, ..good() }, "seccomp is 0, asked was 2 (a filter)"),
            (Posture { root_read_only: false, ..good() }, "root_read_only is false, asked was true"),
            (
                Posture { interfaces: vec!["lo".into(), "eth0".into()], ..good() },
                "interfaces is lo eth0, asked was lo",
            ),
        ];
        for (posture, named) in cases {
            assert_eq!(weaknesses(&posture, &asked()), [named]);
        }
    }

    #[test]
    fn every_ignored_limit_is_named() {
        let ignored =
            Posture { memory_max_bytes: None, pids_max: Some(4096), cpu_max_millis: None, ..good() };
        assert_eq!(
            unenforced(&ignored, &asked()),
            [
                "the memory limit of 512 MiB is not enforced by this engine",
                "the pids limit of 128 processes is not enforced by this engine",
                "the cpu limit of 500 thousandths of a CPU is not enforced by this engine",
            ]
        );
    }
}
