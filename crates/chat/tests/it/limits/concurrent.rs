//! Everything at once, in one millisecond.

use parlor_chat::limits::{Algorithm, Limits, Verdict};

use super::world::{WINDOW, World, id, limit, user};

const ASKED: usize = 1_000;
const ADMITTED: u32 = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once_are_a_hundred_embedded() {
    a_thousand_at_once_are_a_hundred(World::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once_are_a_hundred_redis() {
    a_thousand_at_once_are_a_hundred(World::redis().await).await;
}

/// Two nodes ask at once, the clock stands still.
pub async fn a_thousand_at_once_are_a_hundred(world: World) {
    for &algorithm in Algorithm::ALL {
        let hundred = limit(algorithm, ADMITTED, WINDOW);
        let check = move |node: Limits, cost| async move {
            node.check(&id("x"), &hundred, cost, false).await.unwrap()
        };
        let told = at_once(&world, move |node| check(node, 1)).await;
        must_be_exact(&told, 1);
        world.pass(WINDOW);
        let told = at_once(&world, move |node| check(node, 7)).await;
        must_be_exact(&told, 7);
    }
    let told = at_once(&world, |node| async move {
        node.message(&user("alice"), ADMITTED).await.unwrap()
    });
    must_be_exact(&told.await, 1);
}

async fn at_once<F>(world: &World, ask: impl Fn(Limits) -> F) -> Vec<Verdict>
where
    F: Future<Output = Verdict> + Send + 'static,
{
    let nodes = world.nodes.iter().cycle().take(ASKED);
    let asked: Vec<_> = nodes.map(|it| tokio::spawn(ask(it.clone()))).collect();
    let mut told = Vec::new();
    for asked in asked {
        told.push(asked.await.unwrap());
    }
    told
}

/// As many as fit were admitted, each was told another number, and the rest had to wait.
fn must_be_exact(told: &[Verdict], cost: u32) {
    let (admitted, refused): (Vec<Verdict>, Vec<Verdict>) = told.iter().partition(|it| it.allowed);
    let mut remaining: Vec<_> = admitted.iter().map(|it| it.remaining).collect();
    remaining.sort_unstable();
    let step = usize::try_from(cost).unwrap();
    let expected: Vec<_> = (ADMITTED % cost..=ADMITTED - cost).step_by(step).collect();
    assert_eq!(remaining, expected);
    assert_eq!(admitted.len() + refused.len(), ASKED);
    for it in refused {
        assert!(it.remaining < cost && it.retry_after_ms > Some(0), "{it:?}");
    }
}
