//! The founding of a cluster: from a list of addresses to its voters.
//!
//! All nodes are given the same addresses. Each asks every address what it knows. Once all are
//! reached and none belongs to a cluster, the node with the smallest id founds one of all of them. A
//! node that is not in the list becomes a client of the voters.
//!
//! A voter whose data are lost is refused: it may have voted, and would vote again.

use crate::{
    message::{Answer, HelloAnswer, Message},
    transport::{Transport, exchange},
    voter::Voter,
    voters::{RaftError, RaftVoter},
};
use std::{collections::BTreeMap, time::Duration};
use tidemill_env::World;
use tidemill_types::NodeId;

#[cfg(test)]
mod tests;

/// Time between two rounds of questions, in microseconds.
const ROUND_US: u64 = 300_000;
/// Longest time for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// The part that a node has in the cluster's coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorRole {
    /// It votes.
    Voter,
    /// It asks these voters.
    Client(BTreeMap<NodeId, Voter>),
}

/// The outcome of the answers of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RoundOutcome {
    /// The role is known.
    Take(CoordinatorRole),
    /// This node founds a cluster of these voters.
    Found(BTreeMap<NodeId, Voter>),
    /// Another round is needed: the reason.
    Wait(String),
}

/// The answers of a round, by address; or why none came.
type Answers = BTreeMap<String, Result<HelloAnswer, String>>;

/// Finds the cluster of these addresses, or founds it; waits until it is known. `report` is given
/// what is waited for, each time that it changes.
///
/// # Errors
/// [`RaftError::DataLost`], [`RaftError::DuplicateNode`]; [`RaftError::Stopped`] once `is_stopped`.
pub fn find_or_found(
    world: &World,
    transport: &dyn Transport,
    voter: &RaftVoter,
    addresses: &[String],
    mut report: impl FnMut(&str),
    is_stopped: impl Fn() -> bool,
) -> Result<CoordinatorRole, RaftError> {
    let own_address = &voter.options.address;
    let mut reported = String::new();
    loop {
        if is_stopped() {
            return Err(RaftError::Stopped("the node stops".to_owned()));
        }
        let own = voter.hello();
        let mut answers = Answers::new();
        for address in addresses {
            let answer =
                if address == own_address { Ok(own.clone()) } else { ask(transport, address) };
            answers.insert(address.clone(), answer);
        }
        match decide(&own, &answers)? {
            RoundOutcome::Take(role) => return Ok(role),
            RoundOutcome::Found(voters) => voter.found(&voters)?,
            RoundOutcome::Wait(why) => {
                if why != reported {
                    report(&why);
                    reported = why;
                }
                world.clock.sleep_micros(ROUND_US);
            }
        }
    }
}

fn ask(transport: &dyn Transport, address: &str) -> Result<HelloAnswer, String> {
    match exchange(transport, address, None, &Message::Hello, ANSWER_TIME) {
        Ok(Answer::Hello(answer)) => Ok(answer),
        Ok(_) => Err("it answers something else".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn decide(own: &HelloAnswer, answers: &Answers) -> Result<RoundOutcome, RaftError> {
    let known = own.voters.as_ref();
    let told = answers.values().flatten().find_map(|it| it.voters.as_ref());
    if let Some(voters) = known.or(told) {
        let Some(voter) = voters.get(&own.node) else {
            return Ok(RoundOutcome::Take(CoordinatorRole::Client(voters.clone())));
        };
        if voter.directory != own.directory {
            let (node, known, found) = (own.node, voter.directory, own.directory);
            return Err(RaftError::DataLost { node, known, found });
        }
        return Ok(RoundOutcome::Take(CoordinatorRole::Voter));
    }
    let mut voters: BTreeMap<NodeId, (String, Voter)> = BTreeMap::new();
    let mut missing = Vec::new();
    for (address, answer) in answers {
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => {
                missing.push(format!("{address} ({why})"));
                continue;
            }
        };
        let voter = Voter { address: address.clone(), directory: answer.directory };
        if let Some((first, _)) = voters.insert(answer.node, (address.clone(), voter)) {
            let (node, second) = (answer.node, address.clone());
            return Err(RaftError::DuplicateNode { node, first, second });
        }
    }
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Ok(RoundOutcome::Wait(format!(
            "the cluster is founded once all answer: {missing}"
        )));
    }
    match voters.first_key_value() {
        Some((first, _)) if *first == own.node => {
            let voters = voters.into_iter().map(|(node, (_, voter))| (node, voter)).collect();
            Ok(RoundOutcome::Found(voters))
        }
        Some((first, (address, _))) => {
            Ok(RoundOutcome::Wait(format!("node {first} at {address} founds the cluster")))
        }
        None => Ok(RoundOutcome::Wait("no address to join is given".to_owned())),
    }
}
