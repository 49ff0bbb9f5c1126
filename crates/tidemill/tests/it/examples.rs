//! Every example of the library, run on small data, against a plain computation of the same.

use crate::house::{House, examples};
use clap::Parser;
use std::collections::{BTreeMap, BTreeSet};

#[path = "../../examples/demo.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod demo;
#[path = "../../examples/equipment_monitor/main.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod equipment_monitor;
#[path = "../../examples/shared_stream.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod shared_stream;
#[path = "../../examples/similar_tweets.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod similar_tweets;
#[path = "../../examples/top_words.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod top_words;
#[path = "../../examples/word_count.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod word_count;

/// The options that an example has for these arguments.
fn options<O: Parser>(arguments: &[&str]) -> O {
    let arguments = std::iter::once(&"example").chain(arguments);
    O::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"))
}

fn path(house: &House, name: &str) -> String {
    house.path(name).to_str().expect("UTF-8").to_owned()
}

/// The `nth` of some words that come up unevenly, the same on every run.
fn word(nth: usize) -> &'static str {
    const WORDS: [&str; 9] =
        ["stream", "cycle", "slice", "don't", "Ledger", "ledger", "stage", "Credit", "sink"];
    let spread = nth.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    WORDS[((spread >> 32) % 9).min((spread >> 40) % 9)]
}

#[test]
fn word_count_counts_every_word() {
    let house = House::new();
    let line =
        |n: usize| format!("{}, {}... {}!\n\n", word(3 * n), word(3 * n + 1), word(3 * n + 2));
    house.write("text.txt", &(0..500).map(line).collect::<String>());
    let text = path(&house, "text.txt");
    let (job, rows) = word_count::job(&options(&[&text, "--top", "5"]));
    let progress = job.run().expect("runs");
    assert_eq!(progress.sources[0].records, 1_000, "empty lines are records too");

    let mut counts = BTreeMap::<String, i64>::new();
    (0..1_500).for_each(|n| *counts.entry(word(n).to_lowercase()).or_default() += 1);
    let mut expected: Vec<(i64, String)> = counts.into_iter().map(|(it, n)| (n, it)).collect();
    expected.sort_by(|a, b| b.cmp(a));
    expected.truncate(5);
    let got = rows.read(|row| Ok((row.i64("n")?.unwrap(), row.str("word")?.unwrap().to_owned())));
    let got = got.expect("the columns are there");
    assert!(got.windows(2).all(|pair| pair[0].0 >= pair[1].0), "the commonest first: {got:?}");
    assert_eq!(got.iter().cloned().collect::<BTreeSet<_>>(), expected.into_iter().collect());
    assert!(rows.to_string().contains("ledger"), "{rows}");
}

/// Flights of 100 days, one every 10 minutes, in order.
fn demo_flights() -> Vec<(i64, i64, i64, &'static str, &'static str)> {
    let airports = ["AAA", "BBB", "CCC", "DDD", "EEE"];
    let flight = |n: usize| {
        let spread = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let (from, to) = (spread % 5, (spread / 5) % 5);
        let ts = 978_307_200_000 + n as i64 * 600_000;
        let (delay, miles) = ((spread / 25 % 120) as i64 - 20, 100 * (1 + from + to) as i64);
        (ts, delay, miles, airports[from], airports[to])
    };
    (0..14_400).map(flight).collect()
}

#[test]
fn the_demo_in_code_is_the_demo_in_yaml() {
    let yaml = std::fs::read_to_string(examples().join("demo.yaml")).expect("the file");
    let yaml = yaml.replace("../data/", "");
    let job = demo::job(&options(&[]));
    let parsed = tidemill_node::descriptor::parse(&yaml, "demo.yaml").expect("a good job").spec;
    assert_eq!(*job.spec(), parsed);
}

#[test]
fn the_demo_finds_the_worst_airports_and_the_busiest_routes() {
    let house = House::new();
    let flights = demo_flights();
    let rows = flights
        .iter()
        .map(|(ts, delay, miles, from, to)| format!("{ts},{delay},{miles},{from},{to}\n"));
    house.write(
        "flights.csv",
        &format!("ts,delay,distance,origin,destination\n{}", rows.collect::<String>()),
    );
    house.write(
        "airports.csv",
        "iata,name,city\nAAA,Alpha,Anytown\nBBB,Beta,Bigtown\nCCC,Gamma,C\nDDD,Delta,D\n",
    );
    let folder = path(&house, "");
    demo::job(&options(&[&folder])).run().expect("runs");

    let mut days = BTreeMap::<i64, BTreeMap<&str, Vec<f64>>>::new();
    let mut routes = BTreeMap::<(&str, &str), (i64, i64, i64)>::new();
    for (ts, delay, miles, from, to) in &flights {
        let route = routes.entry((from, to)).or_default();
        *route = (route.0 + 1, route.1 + delay, route.2.max(*miles));
        if *delay > 15 {
            let day = days.entry(ts / 86_400_000).or_default();
            day.entry(from).or_default().push(*delay as f64);
        }
    }
    let mean = |delays: &[f64]| delays.iter().sum::<f64>() / delays.len() as f64;
    let mut expected = BTreeSet::new();
    for delays in days.values() {
        let full = delays.iter().filter(|(_, delays)| delays.len() >= 20);
        let mut means: Vec<(f64, &str)> =
            full.map(|(name, delays)| (mean(delays), *name)).collect();
        means.sort_by(|a, b| b.0.total_cmp(&a.0));
        expected.extend(means.iter().take(3).map(|(mean, _)| (mean * 1e6).round() as i64));
    }
    let worst = house.read("out/worst-airports.ndjson");
    let mut got = BTreeSet::new();
    for line in worst.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row is JSON");
        got.insert((row["mean_delay"].as_f64().expect("a number") * 1e6).round() as i64);
        let named = [("Alpha", "Anytown"), ("Beta", "Bigtown"), ("Gamma", "C"), ("Delta", "D")];
        let pair = (row["airport"].as_str(), row["city"].as_str());
        assert!(
            pair == (None, None) || named.iter().any(|it| pair == (Some(it.0), Some(it.1))),
            "{line}"
        );
    }
    assert!(!expected.is_empty());
    assert_eq!(got, expected);

    let busiest = house.read("out/busiest-routes.csv");
    let mut counts: Vec<i64> = routes.values().map(|route| route.0).collect();
    counts.sort_by(|a, b| b.cmp(a));
    let head: Vec<&str> = busiest.lines().next().expect("a head").split(',').collect();
    let place = |name: &str| head.iter().position(|it| *it == name).expect("the column is there");
    assert_eq!(busiest.lines().count(), 11, "{busiest}");
    for (line, count) in busiest.lines().skip(1).zip(counts) {
        let cells: Vec<&str> = line.split(',').collect();
        let route = routes[&(cells[place("origin")], cells[place("destination")])];
        let number = |name: &str| cells[place(name)].parse::<f64>().expect("a number");
        assert_eq!((number("flights") as i64, number("miles") as i64), (route.0, route.2));
        assert_eq!(route.0, count, "the busiest come first: {busiest}");
        assert!((number("mean_delay") - route.1 as f64 / route.0 as f64).abs() < 1e-9);
    }
}

/// Tweets of three sources, one every 5 hours, with four words each.
fn tweets(house: &House) -> (String, Vec<(i64, &'static str, String)>) {
    let sources = ["Web", "Phone", "Tablet"];
    let tweet = |n: usize| {
        let text = format!(
            "RT {} https://t.co/{n} the {}, {} & {}!",
            word(4 * n),
            word(4 * n + 1),
            word(4 * n + 2),
            word(4 * n + 3)
        );
        (1_241_463_265_000 + n as i64 * 18_000_000, sources[n % 7 % 3], text)
    };
    let tweets: Vec<_> = (0..300).map(tweet).collect();
    let lines = tweets.iter().enumerate().map(|(n, (ts, source, text))| {
        let tweet = serde_json::json!({"ts": ts, "id": n.to_string(), "source": source, "text": text, "is_retweet": n.is_multiple_of(10)});
        format!("{tweet}\n")
    });
    house.write("tweets.ndjson", &lines.collect::<String>());
    (path(house, "tweets.ndjson"), tweets)
}

#[test]
fn top_words_slide_with_their_windows() {
    const DAY: i64 = 86_400_000;
    let house = House::new();
    let (file, tweets) = tweets(&house);
    let arguments = [file.as_str(), "--window", "14d", "--every", "7d", "--top", "3"];
    let (job, rows) = top_words::job(&options(&arguments));
    job.run().expect("runs");
    let got = top_words::windows(&rows).expect("the columns are there");

    let mut expected = BTreeMap::<i64, BTreeMap<String, i64>>::new();
    for (n, (ts, _, _)) in tweets.iter().enumerate() {
        let newest = ts.div_euclid(7 * DAY) * 7 * DAY;
        for start in [newest - 7 * DAY, newest] {
            for nth in 4 * n..4 * n + 4 {
                let word = word(nth).to_lowercase();
                if !top_words::STOP_WORDS.split_whitespace().any(|it| it == word) {
                    *expected.entry(start).or_default().entry(word).or_default() += 1;
                }
            }
        }
    }
    assert_eq!(got.len(), expected.len());
    for ((day, words), counts) in got.iter().zip(expected.values()) {
        let mut largest: Vec<i64> = counts.values().copied().collect();
        largest.sort_by(|a, b| b.cmp(a));
        largest.truncate(3);
        assert_eq!(words.iter().map(|it| it.1).collect::<Vec<_>>(), largest, "{day}");
        assert!(words.iter().all(|(word, n)| counts[word] == *n), "{day}: {words:?}");
    }
    assert_eq!(got.keys().next().map(String::as_str), Some("2009-04-23"));
    assert!(got.values().flatten().all(|(word, _)| word != "don't"), "a stop word");
}

#[test]
fn similar_tweets_are_those_that_share_most_words() {
    const WINDOW: i64 = 3 * 86_400_000;
    let house = House::new();
    let (file, tweets) = tweets(&house);
    let (job, rows) = similar_tweets::job(&options(&[&file, "--window", "3d", "--top", "1000"]));
    job.run().expect("runs");
    let got = rows.read(|row| {
        let number = |name| Ok(row.str(name)?.unwrap().parse::<usize>().expect("a number"));
        Ok((number("id")?, (row.i64("words")?.unwrap() as usize, number("other_id")?)))
    });
    let got: Vec<_> = got.expect("the columns are there");
    assert!(got.windows(2).all(|pair| pair[0].1.0 >= pair[1].1.0), "the most similar first");

    let words = |n: usize| similar_tweets::words(&tweets[n].2).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(
        similar_tweets::words("Tide, mills & the Tide: https://t.co/mill"),
        ["mills", "tide"]
    );
    let mut expected = BTreeMap::new();
    for n in (0..tweets.len()).filter(|n| !n.is_multiple_of(10)) {
        let near = |other: &usize| {
            !other.is_multiple_of(10)
                && tweets[*other].1 == tweets[n].1
                && tweets[n].0 - tweets[*other].0 <= WINDOW
        };
        let scored =
            (0..n).filter(near).map(|other| (words(n).intersection(&words(other)).count(), other));
        if let Some(best) = scored.max().filter(|best| best.0 > 0) {
            expected.insert(n, best);
        }
    }
    assert!(expected.len() > 100);
    assert_eq!(got.into_iter().collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn the_equipment_monitor_sees_every_delay() {
    use equipment_monitor::readings::{PAIRS, Readings, START_US, STEP_US, schema};
    use tidemill::arrow::array::{BooleanArray, cast::AsArray};
    assert_eq!(schema().fields().len(), 66);
    let arguments = ["--hours", "0.5", "--every", "10m", "--seed", "7"];
    let (job, rows) = equipment_monitor::job(&options(&arguments));
    let progress = job.run().expect("runs");
    assert_eq!(progress.sources[0].records, 180_000);
    let got = equipment_monitor::looks(&rows).expect("the columns are there");

    // By valve: the time of each of its delays in microseconds, and the delay in milliseconds.
    let mut delays = BTreeMap::<&str, Vec<(i64, f64)>>::new();
    let batches: Vec<_> = Readings::new(7, 0.5).collect();
    for (sensor, valve) in PAIRS {
        let states = |name: &str| -> Vec<bool> {
            let column = |batch: usize| {
                batches[batch].column_by_name(name).expect("a column").as_boolean().clone()
            };
            let column = |batch| -> BooleanArray { column(batch) };
            (0..batches.len())
                .flat_map(|batch| column(batch).values().iter().collect::<Vec<_>>())
                .collect()
        };
        let changes = |states: Vec<bool>| {
            (1..states.len()).filter(move |it| states[*it] != states[*it - 1]).collect::<Vec<_>>()
        };
        let pairs = changes(states(sensor)).into_iter().zip(changes(states(valve)));
        let delay = |(sensor, valve): (usize, usize)| {
            assert!(sensor < valve, "the sensor comes first");
            (START_US + valve as i64 * STEP_US, (valve - sensor) as f64 * STEP_US as f64 / 1_000.0)
        };
        delays.insert(valve, pairs.map(delay).collect());
    }
    // 10, 20 and 30 minutes after the start, each for three valves.
    assert_eq!(got.len(), 9, "{got:?}");
    for ((until, valve), (changes, [mean, p99, longest])) in got {
        let minutes: i64 =
            until.strip_prefix("2012-02-22 00:").expect("the hour").parse().expect("minutes");
        let end = START_US + minutes * 60_000_000;
        let within: Vec<f64> =
            delays[valve.as_str()].iter().filter(|it| it.0 < end).map(|it| it.1).collect();
        assert_eq!(changes, within.len() as i64, "{valve} until {until}");
        assert!((mean - within.iter().sum::<f64>() / within.len() as f64).abs() < 1e-9);
        assert_eq!(longest, within.iter().copied().fold(0.0, f64::max));
        assert!(mean <= p99 && p99 <= longest, "{mean} {p99} {longest}");
        assert!(within.iter().all(|delay| (40.0..=120.0).contains(delay)));
    }
}

#[test]
fn bad_arguments_are_refused_with_what_is_wrong() {
    let refused = |text: String, wanted: &str| assert!(text.contains(wanted), "{text}");
    let parse = |arguments: &[&str]| {
        equipment_monitor::Options::try_parse_from(arguments).err().expect("refused").to_string()
    };
    refused(parse(&["example", "--hours", "-1"]), "0 to 10000 are possible");
    refused(parse(&["example", "--hours", "x"]), "it is not a number");
    refused(parse(&["example", "--every", "1x"]), "`1x` is not a duration");
    let run = |options| word_count::job(&options).0.run().expect_err("refused").to_string();
    refused(run(options(&["no-such-file.txt"])), "there is no file `no-such-file.txt`");
    refused(run(options(&[file!(), "--top", "0"])), "top");
    let failure =
        top_words::job(&options(&["x.ndjson", "--every", "0d"])).0.run().expect_err("refused");
    refused(format!("{failure:?}"), "job `top_words`: ");
}

#[test]
fn the_guide_names_every_example_and_nothing_else() {
    let guide = std::fs::read_to_string(examples().join("README.md")).expect("the guide");
    let names = |folder: std::path::PathBuf, ext: &str| -> BTreeSet<String> {
        let entries =
            std::fs::read_dir(folder).expect("a folder").map(|it| it.expect("an entry").path());
        let wanted = entries.filter(|it| it.is_dir() || it.extension().is_some_and(|it| it == ext));
        wanted.map(|it| it.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
    };
    for name in names(examples(), "yaml") {
        if examples().join(&name).is_dir() {
            assert!(guide.contains(&format!("({name}/run.sh)")), "{name} is missing");
            continue;
        }
        let says = |how: &str| guide.contains(&format!("tidemill {how} examples/{name}.yaml"));
        assert!(says("run") || says("job submit"), "{name} is missing");
        assert!(guide.contains(&format!("({name}.yaml)")), "{name} is not in the table");
    }
    let code = names(examples().join("../crates/tidemill/examples"), "rs");
    let said = guide.split("--example ").skip(1).map(|rest| {
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned()
    });
    assert_eq!(said.collect::<BTreeSet<_>>(), code);
}

#[test]
fn consumers_share_a_stream_and_go_on_where_they_were() {
    let house = House::new();
    let folder = path(&house, "shared");
    let mut before = 0_u64;
    for (records, consumers) in [("25000", "3"), ("10", "1"), ("12345", "4")] {
        let arguments = [&folder[..], "--records", records, "--consumers", consumers];
        let seen = shared_stream::run(&options(&arguments)).expect("runs");
        let count: u64 = records.parse().expect("a number");
        assert_eq!(seen.records.into_inner(), count, "what is new, and each record once");
        let sum: u64 = (before..before + count).sum();
        assert_eq!(seen.sum.into_inner(), sum);
        before += count;
    }
}
