//! What is kept of jobs, and for how long.

use super::*;

fn jobs(limits: Limits) -> Jobs {
    Jobs::new(&Arc::new(limits))
}

fn asked(run: u64, name: &str) -> JobRequest {
    JobRequest { run, name: name.into(), time: None }
}

/// Of run 1, with a process.
fn begun(jobs: &Jobs, name: &str) -> u64 {
    let number = jobs.reserve(asked(1, name)).unwrap();
    assert!(jobs.begin(number, 1).is_some());
    number
}

#[test]
fn as_many_run_as_may_and_those_that_have_ended_make_room() {
    let jobs = jobs(Limits { jobs_max: 2, ..Limits::default() });
    let first = begun(&jobs, "a");
    begun(&jobs, "b");
    let refusal = jobs.reserve(asked(1, "c")).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (FaultCode::Busy, "no more than 2 may run at once, and these go on: 1, 2")
    );
    jobs.finish(first, Some("gA==".into()));
    assert_eq!(jobs.reserve(asked(1, "c")).unwrap(), 3);
    let none = Jobs::new(&Arc::new(Limits { jobs_max: 0, ..Limits::default() }));
    assert_eq!(none.reserve(asked(1, "a")).unwrap_err().message, "the user lets no jobs run");
}

#[test]
fn a_job_may_take_no_longer_than_the_user_lets_it() {
    let jobs = jobs(Limits { job_time: Duration::from_secs(60), ..Limits::default() });
    let of = |seconds| JobRequest { run: 1, name: "a".into(), time: Some(Duration::from_secs(seconds)) };
    assert_eq!(jobs.reserve(of(61)).unwrap_err().message, "a job may take 60 s, not 61 s");
    let number = jobs.reserve(of(5)).unwrap();
    assert_eq!(jobs.begin(number, 1).unwrap().1, Duration::from_secs(5));
}

#[test]
fn only_a_number_that_was_given_begins_and_once_and_in_its_run() {
    let jobs = jobs(Limits::default());
    let number = jobs.reserve(asked(1, "a")).unwrap();
    assert!(jobs.begin(number + 1, 1).is_none() && jobs.begin(number, 2).is_none());
    assert!(jobs.begin(number, 1).is_some() && jobs.begin(number, 1).is_none());
    let never = jobs.reserve(asked(1, "b")).unwrap();
    jobs.drop_unbegun();
    assert!(jobs.begin(never, 1).is_none());
    assert_eq!(jobs.summary(never).unwrap_err().message, format!("nothing is known of job {never} any more"));
    assert_eq!(jobs.summary(99).unwrap_err().message, "there is no job 99");
}

#[test]
fn notes_of_a_job_are_told_once_with_its_end() {
    let jobs = jobs(Limits::default());
    let number = begun(&jobs, "a");
    assert_eq!(jobs.news(2), [""; 0]);
    jobs.finish(number, Some("gA==".into()));
    jobs.add_notes(number, vec!["job 1: warned".into()]);
    // The code has looked, so that only the notes are news.
    jobs.result(number).unwrap();
    assert_eq!(jobs.news(2), ["job 1: warned"]);
    assert_eq!(jobs.news(3), [""; 0]);
}

#[test]
fn the_next_reply_says_once_what_has_ended_unless_the_code_has_looked() {
    let jobs = jobs(Limits::default());
    let (first, second, third) = (begun(&jobs, "crawl"), begun(&jobs, "b\u{1b}[31m"), begun(&jobs, "c"));
    let running: Vec<_> = jobs.news(1);
    assert_eq!((running.len(), running[0].as_str()), (3, "job 1 'crawl' goes on: runtime.job(1).status"));
    assert_eq!(jobs.news(2), [""; 0]);
    jobs.count_call(first);
    jobs.finish(first, Some("gA==".into()));
    let error = PythonError {
        class: "ValueError".into(),
        message: "m".into(),
        traceback: String::new(),
        traceback_chars: 0,
        line: None,
        hint: String::new(),
    };
    jobs.fail(second, Some(error), "ValueError: m");
    jobs.finish(third, Some("gA==".into()));
    assert_eq!(jobs.result(third).unwrap().1.as_deref(), Some("gA=="));
    let news = jobs.news(2);
    assert_eq!(news[0], "job 1 'crawl' finished after 0 s, 1 call: runtime.job(1).result");
    assert!(news[1].starts_with("job 2 'b") && !news[1].contains('\u{1b}'), "{news:?}");
    assert!(
        news[1].ends_with("failed after 0 s: \"ValueError: m\"; runtime.job(2).result raises it"),
        "{news:?}"
    );
    assert_eq!((news.len(), jobs.news(3)), (2, vec![]));
}

#[test]
fn what_ends_a_job_counts_unless_it_returns_meanwhile() {
    let jobs = jobs(Limits::default());
    let (late, cancelled) = (begun(&jobs, "a"), begun(&jobs, "b"));
    jobs.ends(late, Status::TimedOut, "");
    jobs.ends(late, Status::Cancelled, "too late");
    jobs.fail(late, None, "its process was ended by signal 9");
    jobs.ends(cancelled, Status::Cancelled, "");
    jobs.finish(cancelled, Some("gA==".into()));
    let status = |number| jobs.summary(number).unwrap().status;
    assert_eq!((status(late), status(cancelled)), (Status::TimedOut, Status::Finished));
    // What has ended does not change any more.
    jobs.lose(late, "its sandbox is gone");
    assert_eq!(status(late), Status::TimedOut);
}

#[test]
fn the_end_of_the_output_and_the_last_results_are_kept() {
    let limits = Limits {
        job_tail_bytes_max: 10,
        job_results_bytes_max: 5,
        job_result_bytes_max: 4,
        jobs_kept_max: 2,
        ..Limits::default()
    };
    let jobs = jobs(limits);
    let first = begun(&jobs, "a");
    jobs.write(first, b"0123456789\nab\n");
    jobs.write(first, "é\n".as_bytes());
    assert_eq!(jobs.tail(first, 100).unwrap(), "789\nab\né\n");
    assert_eq!(jobs.tail(first, 1).unwrap(), "é\n");
    // What redraws itself shows its last state.
    jobs.write(first, b"1%\r99%\r\nab");
    assert_eq!(jobs.tail(first, 2).unwrap(), "99%\r\nab");
    jobs.finish(first, Some("1234".into()));
    let second = begun(&jobs, "b");
    jobs.finish(second, Some("12345".into()));
    assert_eq!(jobs.summary(second).unwrap().why, "what it returned did not come");
    let third = begun(&jobs, "c");
    jobs.finish(third, Some("123".into()));
    assert_eq!(jobs.result(third).unwrap().1.as_deref(), Some("123"));
    let fourth = begun(&jobs, "d");
    assert_eq!(jobs.result(first).unwrap_err().message, "nothing is known of job 1 any more");
    jobs.finish(fourth, Some("123".into()));
    assert_eq!((jobs.result(third).unwrap().1, jobs.result(fourth).unwrap().1), (None, Some("123".into())));
}

#[tokio::test]
async fn who_waits_for_a_job_hears_of_its_end_and_who_cancels_it_is_heard() {
    let jobs = jobs(Limits::default());
    let (waited_for, reserved) = (begun(&jobs, "a"), jobs.reserve(asked(1, "b")).unwrap());
    jobs.cancel(reserved).unwrap();
    jobs.cancel(waited_for).unwrap();
    assert_eq!(jobs.to_cancel().await, [waited_for]);
    let ends = async {
        tokio::task::yield_now().await;
        jobs.lose(waited_for, "its sandbox is gone");
    };
    let (ended, ()) = tokio::join!(jobs.ended(waited_for), ends);
    ended.unwrap();
    assert_eq!(jobs.summary(waited_for).unwrap().status, Status::Lost);
    assert!(jobs.ended(reserved).await.is_err());
    let (other, finished) = (begun(&jobs, "c"), begun(&jobs, "d"));
    jobs.finish(finished, Some("gA==".into()));
    jobs.lose_all("belljar broke inside");
    let status = |number| jobs.summary(number).unwrap().status;
    assert_eq!((status(other), status(finished)), (Status::Lost, Status::Finished));
}

#[tokio::test]
async fn who_waits_for_a_job_that_never_begins_hears_that_it_is_forgotten() {
    let jobs = jobs(Limits::default());
    let waited_for = |number, forget: fn(&Jobs, u64)| {
        let jobs = &jobs;
        async move {
            let forgets = async {
                tokio::task::yield_now().await;
                forget(jobs, number);
            };
            tokio::join!(jobs.ended(number), forgets).0.unwrap_err().message
        }
    };
    let (first, second) = (jobs.reserve(asked(1, "a")).unwrap(), jobs.reserve(asked(1, "b")).unwrap());
    let said = waited_for(first, |jobs, number| jobs.cancel(number).unwrap()).await;
    assert_eq!(said, "nothing is known of job 1 any more");
    let said = waited_for(second, |jobs, _| jobs.drop_unbegun()).await;
    assert_eq!(said, "nothing is known of job 2 any more");
}

#[test]
fn numbers_of_an_earlier_session_are_not_given_again() {
    let jobs = jobs(Limits::default());
    jobs.recorded(3, 1);
    assert_eq!(jobs.summary(3).unwrap().status, Status::Lost);
    assert_eq!((jobs.reserve(asked(2, "a")).unwrap(), jobs.news(2)), (4, vec![]));
}
