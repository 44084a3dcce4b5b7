//! The words that ManyChat's messages are made of. Only these are kept of what ManyChat says: it may quote anything it
//! knows of a contact, and no list of what to hide could hold every name and street (LOG-9, PII-8, API-49).

/// Longest run of digits that is kept: `24 hours`, `502`, but no year, pin, phone or id.
const LONGEST_NUMBER: usize = 3;

/// Words of errors, of ManyChat's own subjects, of its field names, and of the pages that proxies answer with; of the
/// remaining English only what carries no meaning alone and is nobody's name.
const WORDS: &str = "
    a about above access account action active add added again against agent ago all allow allowed already an and any
    api app application archived are as at attempt authentication authorization available back bad balance be because
    been before being below between blocked body bot but by cached call called calls can cannot changed channel
    characters check client closed cloudflare cloudfront code config configured conflict connect connected connection
    contact contacts content could couldn count create created credentials current custom customer data day days
    deactivated deleted delivered delivery denied deprecated details did didn disabled do does doesn down draft due
    duplicate during each edge email empty enabled encountered endpoint error errors exceed exceeded exceeds exist
    existing exists expected expired external facebook fail failed failing fails failure false fb fetch field fields
    flow flows for forbidden format found from gateway get getinfo given gone had handle has have head header host
    hour hours html http https id ids if in inactive incorrect info input instagram instead int integer interact
    interacted interaction internal into invalid is isn issue it its json key keyword last later least length less
    limit limits link live load locked login longer low many manychat maximum media message messages
    messenger meta method min minimum minute minutes missing moderated modified more most moved must name named need
    needed needs network new nginx no non none not null number numeric object occurred of off offline on once one only
    opened opt opted optin or order origin out outgoing outside over overloaded own param parameter parameters
    parse paused payload payment period permanently permission permissions permitted phone plan platform please
    policy post pre pro problem processed processing provided proxy published quota rate read reached reason receive
    received recipient refuse refused reject rejected removed request requested requests require required requires
    resource response result retry route s second seconds security see send sendflow sending sent server service
    service_unavailable session set setcustomfieldbyname setting settings short should size smart so some something
    specified state status step still stop stopped store string subscribed subscriber subscriber_id subscribers
    subscription success such support supported suspended system t tag tags temporarily temporary template text than
    that the their them then there they this throttled time timed timeout title to told token too try trying type
    unable unauthorized unavailable undefined unexpected unknown unprocessable unpublished unsubscribed unsupported
    until updated upgrade upstream url usage use used user uses using valid validate validation value values version
    very via wait was wasn webhook went were whatsapp when which while window with within without won workspace
    write wrong yet you your
    addtagbyname removetagbyname customfields ns br center div h h1 hr p span style doctype en meta charset utf
";

/// True for a word of [`WORDS`] in any letter case, and for a short number.
pub(super) fn is_plain(word: &str) -> bool {
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return word.len() <= LONGEST_NUMBER;
    }
    let word = word.to_ascii_lowercase();
    WORDS.split_ascii_whitespace().any(|known| known == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-9
    #[test]
    fn only_words_that_name_nobody_are_plain() {
        for word in ["Subscriber", "gone", "WINDOW", "24", "setCustomFieldByName"] {
            assert!(is_plain(word), "{word}");
        }
        for word in
            ["Noor", "Max", "Page", "Will", "May", "kiln", "Hauptstrasse", "2027", "7301144", "Zoë", "x7"]
        {
            assert!(!is_plain(word), "{word}");
        }
    }
}
